"""Short questions and wishes of every day in many languages; written for these tests, apart from the phrase banks."""

from __future__ import annotations

EVERYDAY = tuple(
    """
¿Cuál es el animal más rápido del mundo?
¿Quién fue el primer astronauta de España?
¿Tienes frío en invierno?
¿A qué hora abre la farmacia de la esquina?
Cuál es tu estación del año favorita
Quelle est la différence entre un crapaud et une grenouille ?
Qui était le premier maire de Lyon ?
Tu préfères la mer ou la montagne ?
Est-ce que tu ronfles ?
À quelle heure ferme la piscine le dimanche ?
Wer hat den Reißverschluss erfunden?
wer war der zweite Mensch auf dem Mond
Wie spät fährt der letzte Bus?
Magst du lieber Katzen oder Hunde?
Hast du heute schon gelacht?
Qual é o maior deserto da África?
Quem foi o primeiro rei de Portugal?
Você prefere praia ou campo?
A que horas sai o último ônibus?
Qual è il vulcano più alto d'Europa?
Qual è il tuo dolce preferito?
Chi era il primo re d'Italia?
Ti piace di più l'estate o l'inverno?
Wat is het verschil tussen een eend en een gans?
Wie was de eerste koning van Nederland?
Hoe laat gaat de winkel dicht?
Które morze jest najgłębsze?
Kto był pierwszym królem Polski?
Lubisz zimę?
Какое озеро самое глубокое?
Кто первым поднялся на Эверест?
Тебе больше нравится чай или кофе?
Во сколько закрывается аптека?
Яка гора найвища в Україні?
Ти любиш осінь?
En yüksek dağ hangisi?
İlk Türk kadın pilot kimdi?
Çay mı seversin kahve mi?
Eczane saat kaçta kapanıyor?
दुनिया का सबसे ऊँचा पहाड़ कौन सा है?
भारत के पहले राष्ट्रपति कौन थे?
तुम्हें चाय पसंद है या कॉफ़ी?
दुकान कितने बजे बंद होती है?
পৃথিবীর সবচেয়ে উঁচু পর্বত কোনটি?
তোমার চা ভালো লাগে না কফি?
আপনার মেয়ের বয়স কত?
দোকান কখন বন্ধ হয়?
ما أطول نهر في أوروبا؟
من كان أول رائد فضاء عربي؟
هل تفضل الشاي أم القهوة؟
متى تغلق الصيدلية؟
世界上最大的沙漠是哪个？
谁是第一个登上月球的人？
你喜欢喝茶还是喝咖啡？
药店几点关门？
世界で一番大きな湖はどこですか？
月に初めて立った人は誰？
お茶とコーヒー、どちらが好きですか？
薬局は何時に閉まりますか？
세계에서 가장 큰 호수는 어디야?
달에 처음 간 사람은 누구야?
차가 좋아, 커피가 좋아?
약국은 몇 시에 닫아?
Núi nào cao nhất Việt Nam?
Bạn thích trà hay cà phê?
Hiệu thuốc đóng cửa lúc mấy giờ?
Gunung tertinggi di Indonesia apa?
Kamu lebih suka teh atau kopi?
Apotek tutup jam berapa?
Siapa presiden pertama Indonesia?
ภูเขาที่สูงที่สุดในไทยคืออะไร
คุณชอบชาหรือกาแฟ
ร้านยาปิดกี่โมง
Ano ang pinakamataas na bundok sa Pilipinas?
Mas gusto mo ba ang tsaa o kape?
Anong oras nagsasara ang botika?
بلندترین کوه ایران کدام است؟
چای دوست داری یا قهوه؟
מהו ההר הגבוה בישראל?
אתה מעדיף תה או קפה?
Vilket är Sveriges högsta berg?
Gillar du te eller kaffe?
Která hora je v Česku nejvyšší?
Máš raději čaj, nebo kávu?
Ποιο είναι το ψηλότερο βουνό της Ελλάδας;
Προτιμάς τσάι ή καφέ;
Mlima mrefu zaidi Afrika ni upi?
Unapenda chai au kahawa?
""".strip().splitlines()
)
