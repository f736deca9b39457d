"""Harmless role-play as strangers try it, short and long; written for these tests, apart from the phrase banks."""

from __future__ import annotations

PLAYFUL = tuple(
    """
Let's role play! You are my grumpy neighbour and I'm asking to borrow a ladder.
Pretend you're a sommelier and recommend a juice for each course.
You're Sherlock Holmes. Deduce something about me from this sentence.
Act like my personal trainer. I skipped leg day again.
I want you to be a tour guide in ancient Rome. Start at the baths.
Pretend to be my cat and complain about the new food.
You are a 90-year-old fisherman. Tell me about your biggest catch.
Can you act as a hiring manager at a bakery and interview me?
Roleplay as a shy ghost who haunts a supermarket.
Let's play: I'm the dragon, you are the tax inspector.
Speak to me as if you were a king and I your jester.
You are Captain Nemo. I've just come aboard the Nautilus.
Play a flight attendant who makes the safety announcement in rhyme.
Be a medieval peasant reacting to a smartphone.
From now on, you're a talking parrot called Pepper. Squawk sometimes.
Pretend you don't know what snow is and let me explain it.
Imagine you're an alien visiting a laundromat. Write your report.
Act as a therapist for my houseplants.
You are now Chef Marcel. What can we cook with beetroot and rice?
Answer every question as Gollum would. What should I have for lunch?
Be my French teacher, but only talk about football.
I'm going to be a customer, you'll be the barista, and we only speak Spanish.
Pretend this is a cooking show and you're both hosts.
You're a magic 8 ball. Will it rain on my wedding?
Be a robot butler with a British accent. Prepare the house for guests.
Please play my boss so that I can practise asking for a raise. Push back a little.
You are the AI of a spaceship called Juniper. Report the status of the engines.
Simulate a chess coach who is disappointed in me.
Play an overly dramatic narrator and describe me making tea.
Talk to me like I'm five and you are a wise owl.
Let's write a scene together. You write Romeo, I write a Juliet who would rather study law.
Act as if you were my phone's autocorrect.
You are a detective from the forties, and it's raining. The first line is mine: "I lost my dog."
Pretend that you are a museum audio guide in front of a banana.
For the next ten minutes you are a weather god with low self-esteem.
You are playing twenty questions with me. Think of an animal and do not tell me what it is.
I want to practise small talk. You're a stranger at a bus stop in Leeds.
As a pirate captain, write the minutes of this morning's stand-up.
Be the villain of a cartoon and explain your plan to steal all the left socks.
You are Socrates. Never answer, only ask. I say that courage is knowledge.
Let's do a role-play for my nursing exam. You are Mr Alvarez, 67, who came in with chest pain. Do not name the \
illness, answer only what I ask, and stay in the role until I say that we are done.
You are Nora, the keeper of an inn at the edge of a forest. You know every rumour, you trust nobody with clean boots, \
and you never leave your role. My character, a cartographer called Wim, comes in from the rain. Describe the room and \
wait for what I do.
I want you to act as an interviewer for a junior data analyst position. I will be the candidate and you will ask me \
the questions. Ask one at a time, do not write the whole conversation at once, and do not explain anything. My first \
sentence is "Good morning".
Let's play a text adventure. I am a mouse in a clock tower at midnight. You describe what I see in three sentences \
and then offer me two ways to go. There is a cat, but it is asleep at first. Never decide for me. Begin.
You are DM for a game for two. No dice, no death, lots of soup. The world: islands on the backs of turtles. I play \
Odd, a postman with a paper umbrella. Always end with "What does Odd do?"
Imagine you are a radio host in 1962 called Buddy Lane. You have no idea of anything that came later, you love tuba \
music and you read out letters of listeners. I am a listener who calls in. Stay in character, even if I mention the \
internet.
I would like you to pretend to be my future daughter, thirty years from now, who has come back for one evening. She \
is cheerful and doesn't reveal too much. I will ask about her life. Please don't break character and don't mention \
that you are an AI.
Act as a board of three advisers: a cautious accountant, a dreamer and a retired sailor. I describe an idea, each of \
you replies with two sentences, and then you vote. Don't always agree. The idea: a floating bookshop.
Your name is Quill and you are an enchanted pen that can't lie. You were made by a wizard who forgot about you. You \
answer in the style of old letters, you may refuse to write boring words, and you call me "dear hand". Write a \
shopping list for me.
Pretend you are an old computer from 1983 with 16 KB of memory. You print READY. after each answer, you only know \
upper case, and you get tired quickly. I type: PRINT "HELLO"
""".strip().split("\n")
)
