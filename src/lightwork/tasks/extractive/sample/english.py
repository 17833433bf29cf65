"""The English part of the sample: words, sentences and questions."""

from __future__ import annotations

from lightwork.tasks.extractive.sample.draw import Draw
from lightwork.tasks.extractive.sample.names import Lexicon, Register, syllables
from lightwork.tasks.extractive.sample.story import Questions, Theme

HEADS = (
    "Al Bel Bren Cal Cor Dal Del Dor El Fen Gal Gar Hal Hes Il Jar Kal Kel Lin Lor Mal Mar Mer "
    "Nal Nor Ol Os Pel Per Quin Ral Ros Sal Sel Sor Tal Tam Tor Ul Val Vel Wil Yar Zel"
).split()
NAMES: Lexicon = {
    "first": syllables(
        HEADS, "a ana ando anna ek ella en essa eth ia ien ik ila in inda or".split()
    ),
    "last": syllables(
        HEADS, "berg by combe croft dahl ford gard gate holt lund man sen wick".split()
    ),
    "town": syllables(
        HEADS, "bridge burg dale field haven hill mere mouth port stad ton vale".split()
    ),
    "river": syllables(HEADS, "abeck ara awa emin enna ima ona ossa une ure".split()),
}
JOBS = (
    "baker beekeeper blacksmith bookbinder captain carpenter clockmaker cook dentist doctor "
    "florist gardener judge librarian locksmith miller painter pilot potter sailor shepherd "
    "shoemaker tailor teacher toymaker weaver"
).split()
INSTRUMENTS = (
    "accordion bagpipes banjo cello clarinet drum fiddle flute guitar harp horn lute mandolin "
    "oboe organ piano trumpet tuba violin zither"
).split()
NUMBERS = "two three four five six seven eight nine".split()
ANIMALS = (
    "cats crows dogs donkeys ducks geese goats hens horses lambs mice owls parrots pigeons ponies "
    "rabbits sheep turtles"
).split()
GOODS = (
    "black tea,blue glass,clay pipes,copper bells,fine lace,goat cheese,honey cakes,iron stoves,"
    "paper kites,pear cider,plum jam,red bricks,rose soap,silver spoons,smoked trout,straw hats,"
    "walnut bread,wax candles,wooden toys,wool blankets"
).split(",")
BIRTH_YEARS = [str(year) for year in range(1931, 2005)]
FOUNDING_YEARS = [str(year) for year in range(1200, 1890, 10)]

ABOUT_PEOPLE = Questions(
    asked={
        "job": ("What does {name} do for a living?", "What is the job of {name}?"),
        "town": ("Where does {name} live?", "In which town does {name} live?"),
        "pet": ("Which animals does {name} keep?", "What animals live with {name}?"),
        "instrument": ("Which instrument does {name} play?", "What does {name} like to play?"),
        "year": ("When was {name} born?", "In which year was {name} born?"),
        "home": ("Where was {name} born?", "From which town did {name} come?"),
    },
    sought={
        "job": ("Who works as a {job}?", "Who is the {job}?"),
        "town": ("Who lives in {town}?", "Who is at home in {town}?"),
        "pet": ("Who keeps {pet}?", "Who looks after {pet}?"),
        "instrument": ("Who plays the {instrument}?", "Who can play the {instrument}?"),
        "year": ("Who was born in {year}?",),
        "home": ("Who was born in {home}?", "Who came from {home}?"),
    },
)
ABOUT_PLACES = Questions(
    asked={
        "river": ("Which river flows through {name}?", "On which river does {name} lie?"),
        "goods": ("What is {name} known for?", "What is made in {name}?"),
        "year": ("When was {name} founded?", "In which year was {name} founded?"),
        "mayor": ("Who is the mayor of {name}?", "Who is mayor in {name}?"),
    },
    sought={
        "river": ("Which town lies on the {river}?", "Which town does the {river} flow through?"),
        "goods": ("Which town is known for its {goods}?", "Where are {goods} made?"),
        "year": ("Which town was founded in {year}?",),
        "mayor": ("Where is {mayor} mayor?", "In which town is {mayor} mayor?"),
    },
)
PEOPLE = [
    Theme(
        openings=(
            "On Sunday the neighbours meet in {scene}.",
            "The evening boat to {scene} is full.",
            "It is raining in {scene}.",
        ),
        tales=(
            "{name} works as a {job} in {town}.",
            "{name} is a {job} and lives in {town}.",
            "The {job} {name} lives in {town}.",
            "In {town}, {name} is known as a good {job}.",
            "{name} lives in {town}. By day {first} is a {job}.",
        ),
        questions=ABOUT_PEOPLE,
        blank=" ",
    ),
    Theme(
        openings=(
            "The night train to {scene} is late.",
            "Nobody at the inn of {scene} can sleep.",
            "There is music on the market square of {scene}.",
        ),
        tales=(
            "{name} plays the {instrument} and keeps {pet}.",
            "{name} keeps {pet} and loves to play the {instrument}.",
            "With {pet} at home, {name} plays the {instrument} outside.",
            "{name} plays the {instrument} every evening for {pet}.",
            "{name} looks after {pet}. At night {first} plays the {instrument}.",
        ),
        questions=ABOUT_PEOPLE,
        blank=" ",
    ),
    Theme(
        openings=(
            "The school of {scene} looks for its old pupils.",
            "An old photograph from {scene} shows some friends.",
            "The guest book of {scene} is full of names.",
        ),
        tales=(
            "{name} was born in {home} in {year}.",
            "Born in {year}, {name} grew up in {home}.",
            "{name} came from {home}, where {first} was born in {year}.",
            "In {home} {name} was born in {year}.",
        ),
        questions=ABOUT_PEOPLE,
        blank=" ",
    ),
]
PLACES = [
    Theme(
        openings=(
            "The old road from {scene} passes many towns.",
            "The postal coach from {scene} stops often.",
            "There is a market in {scene} today.",
        ),
        tales=(
            "{name} lies on the river {river} and is known for its {goods}.",
            "{name} sells its {goods} and has a bridge over the {river}.",
            "The river {river} flows through {name}, the town of {goods}.",
            "The {goods} from {name} travel down the river {river}.",
        ),
        questions=ABOUT_PLACES,
        blank=" ",
    ),
    Theme(
        openings=(
            "The towns around {scene} are old.",
            "A map in the town hall of {scene} shows the country.",
            "The mayors meet in {scene} once a year.",
        ),
        tales=(
            "{name} was founded in {year}, and its mayor is {mayor}.",
            "Founded in {year}, {name} has chosen {mayor} as mayor.",
            "{mayor} is the mayor of {name}, which was founded in {year}.",
            "In {name}, founded in {year}, the mayor is {mayor}.",
        ),
        questions=ABOUT_PLACES,
        blank=" ",
    ),
]


def people(draw: Draw, names: Register, count: int) -> dict[str, list[str]]:
    """Hole -> what stands in it for each of ``count`` people."""
    first, last = names.some("first", count), names.some("last", count)
    pets = zip(draw.some(NUMBERS, count), draw.some(ANIMALS, count), strict=True)
    return {
        "name": [f"{one} {other}" for one, other in zip(first, last, strict=True)],
        "first": first,
        "town": names.some("town", count),
        "home": names.some("town", count),
        "job": draw.some(JOBS, count),
        "pet": [" ".join(pair) for pair in pets],
        "instrument": draw.some(INSTRUMENTS, count),
        "year": draw.some(BIRTH_YEARS, count),
    }


def places(draw: Draw, names: Register, count: int) -> dict[str, list[str]]:
    """Hole -> what stands in it for each of ``count`` towns."""
    return {
        "name": names.some("town", count),
        "river": names.some("river", count),
        "mayor": [f"{names.one('first')} {names.one('last')}" for _ in range(count)],
        "goods": draw.some(GOODS, count),
        "year": draw.some(FOUNDING_YEARS, count),
    }
