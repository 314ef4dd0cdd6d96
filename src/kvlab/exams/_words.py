"""Names and things that questions are made of."""

from __future__ import annotations

PEOPLE = (
    "Alma", "Bruno", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Karin", "Luis", "Mona",
    "Nils", "Olga", "Pavel", "Rosa", "Sven", "Tilda", "Ugo", "Vera", "Walter", "Yara", "Zoran",
)  # fmt: skip
SURNAMES = (
    "Adler", "Berg", "Costa", "Dahl", "Evans", "Fischer", "Grant", "Holm", "Ivanov", "Jensen", "Keller", "Lopez",
    "Moreau", "Novak", "Olsen", "Petrov", "Quinn", "Rossi", "Silva", "Turner", "Varga", "Weber", "Young", "Zeller",
)  # fmt: skip
CITIES = (
    "Oslo", "Lisbon", "Vienna", "Dublin", "Prague", "Athens", "Warsaw", "Madrid", "Zurich", "Turin", "Lyon", "Porto",
    "Bergen", "Krakow", "Geneva", "Seville", "Leipzig", "Ghent", "Malmo", "Verona",
)  # fmt: skip
THINGS = (
    "lamp", "chair", "kettle", "mirror", "carpet", "ladder", "basket", "clock", "drawer", "blanket", "bucket", "helmet",
    "pillow", "teapot", "curtain", "hammer", "violin", "wallet", "candle", "shelf",
)  # fmt: skip
COLOURS = ("red", "green", "blue", "white", "black", "yellow", "brown", "grey", "orange", "purple")
