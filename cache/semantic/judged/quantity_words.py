"""Words of numbers, units and spans of time, for `quantities.py`."""

from __future__ import annotations

from sluicegate.cache.semantic.english import listed

_TO_NINETEEN = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {word: value for value, word in enumerate(_TO_NINETEEN.split(), 1)} | {
    word: 10 * value for value, word in enumerate(_TENS.split(), 2)
}
SCALES = {
    "hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000, "dozen": 12
}  # fmt: skip
SHORT_SCALES = {"k": 1000, "m": 1_000_000, "bn": 1_000_000_000}
"""Letters that stand on a number."""
FEW_OF = {"one": 1.0, "once": 1.0, "single": 1.0, "twice": 2.0, "couple": 2.0, "pair": 2.0, "both": 2.0, "twin": 2.0}
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth"
FEW_OF |= {word: float(value) for value, word in enumerate(_ORDINALS.split(), 1)}
"""Words that may stand for a number, or for none."""
SIGNS = {"€": "eur", "$": "usd", "£": "gbp"}
_SPANS = {
    "minute": ("minute", 1, "minutes min mins"), "hour": ("minute", 60, "hours hr hrs h"),
    "day": ("minute", 1440, "days"), "week": ("minute", 10080, "weeks wk wks"),
    "fortnight": ("minute", 20160, "fortnights"), "night": ("night", 1, "nights"), "month": ("month", 1, "months"),
    "year": ("month", 12, "years yr yrs"), "decade": ("month", 120, "decades"),
}  # fmt: skip
SPANS = {word: (basic, times) for name, (basic, times, words) in _SPANS.items() for word in (name, *words.split())}
"""The basic unit of a span of time, and how many of it there are: days do not make months, nor nights days."""
PERIODS = {
    "hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "annual": "year",
    "annually": "year", "overnight": "night", "fortnightly": "fortnight",
}  # fmt: skip
_MEASURED = {
    "mm": "millimetre millimetres millimeter millimeters", "cm": "centimetre centimetres centimeter centimeters",
    "m": "metre metres meter meters", "km": "kilometre kilometres kilometer kilometers kms", "in": "inch inches",
    "ft": "foot feet", "yd": "yard yards", "mi": "mile miles", "mg": "milligram milligrams",
    "g": "gram grams gramme grammes", "kg": "kilo kilos kilogram kilograms", "lb": "lbs", "pound": "pounds",
    "oz": "ounce ounces", "ml": "millilitre millilitres milliliter milliliters", "cl": "centilitre centilitres",
    "l": "litre litres liter liters", "gal": "gallon gallons", "tsp": "teaspoon teaspoons",
    "tbsp": "tablespoon tablespoons", "cup": "cups", "s": "second seconds sec secs", "ms": "millisecond milliseconds",
    "kb": "kilobyte kilobytes", "mb": "megabyte megabytes meg", "gb": "gigabyte gigabytes gig gigs",
    "tb": "terabyte terabytes", "bit": "bits", "byte": "bytes", "hz": "hertz", "khz": "", "mhz": "",
    "ghz": "gigahertz", "kw": "kilowatt kilowatts", "kwh": "", "mw": "", "wh": "", "v": "volt volts", "kv": "",
    "mah": "", "ah": "", "w": "watt watts", "bar": "", "psi": "", "kj": "", "cal": "calorie calories", "kcal": "",
    "c": "celsius °c", "f": "fahrenheit °f", "deg": "degree degrees °", "eur": "euro euros €",
    "usd": "dollar dollars bucks $", "gbp": "quid £", "chf": "franc francs", "jpy": "yen", "inr": "rupee rupees",
    "percent": "% pct", "kmh": "", "kph": "", "mph": "", "fps": "", "rpm": "", "db": "decibel decibels", "ppm": "",
    "px": "pixel pixels", "dpi": "", "ppi": "", "pt": "pts", "ha": "hectare hectares", "sqm": "", "sqft": "",
    "mil": "", "mol": "", "rad": "", "nm": "", "pa": "", "kpa": "", "j": "joule joules", "a": "", "ma": "", "mv": "",
}  # fmt: skip
MEASURES = {word: unit for unit, words in _MEASURED.items() for word in (unit, *words.split())} | {
    "per cent": "percent"
}
BASIC = {
    "kg": ("g", 1000), "l": ("ml", 1000), "cl": ("ml", 10), "km": ("mm", 1_000_000), "m": ("mm", 1000),
    "cm": ("mm", 10), "kw": ("w", 1000), "gb": ("mb", 1000), "tb": ("mb", 1_000_000), "ghz": ("mhz", 1000),
}  # fmt: skip
"""Units as so many of a smaller one."""
ARTICLES = listed("a an the my your our his her their of")
NO_CONTEXT = listed("is are do does can could will would i we you it and or but for on with that this")
