# SPDX-License-Identifier: MIT
"""The words of the written dialogues, and how values are drawn from them."""

import zlib


def held_out(value):
    """True for the tenth of all names, places and pairs that training never sees."""
    return zlib.crc32(value.lower().encode()) % 10 == 3


NAMES = """Anna Ben Clara David Emma Felix Grace Hugo Ivy Jack Kate Leo Mia Noah Olivia Paul
Quinn Rosa Sam Tina Uma Victor Wendy Xavier Yara Zoe Adam Bella Carl Diana Eric Fiona George
Hannah Ian Julia Kevin Laura Mark Nina Oscar Petra Robert Sarah Tom Ursula Vera William
Alice Bob Carol Daniel Eva Frank Gina Henry Irene James Karen Liam Maria Nathan Olga Peter
Rachel Simon Teresa Lucas Walter Amelia Boris Chloe Dylan Elena Finn Gloria Harry Isabel
Jonas Klara Lukas Martha Nico Otto Pavel Rita Stefan Tara Ulrich Viktor Wanda Agnes Bruno
Cecilia Dario Edith Fabian Greta Harold Ines Jan Katya Lars Monica Nadia Omar Paula Raul
Sofia Theo Umberto Violet Wilma Yusuf Zara Aisha Bela Chen Dmitri Esther Farid Gabor Hiro
Ingrid Jamal Kenji Leila Mehmet Naomi Ahmed Priya Ravi Sven Tomas Aaron Abigail Albert
Andrea Angela Anton Arthur Barbara Beatrice Bernard Brian Bridget Caleb Camilla Charles
Charlotte Christine Colin Cora Cynthia Dennis Derek Dora Doris Douglas Edgar Edward Eleanor
Elias Ellen Emil Emily Ernest Ethan Eugene Evelyn Flora Florence Gavin Gerald Gordon Graham
Gustav Hazel Heidi Helen Hilda Holly Howard Iris Isaac Jacob Janet Jasmine Jason Jean Jenny
Jeremy Jerome Joan Joel John Jordan Joseph Joyce Judith Julian June Karl Keith Kim Kurt Lena
Leonard Leslie Lewis Lily Linda Lisa Logan Lorenzo Louis Louise Lucy Luis Lydia Mabel Magda
Malcolm Marco Margaret Marina Mario Marion Martin Mary Mason Matilda Matthew Maurice Max
Megan Melissa Michael Mona Morgan Nancy Nathalie Neil Nelson Nicole Nigel Nora Norman Oliver
Owen Pamela Patricia Patrick Pearl Philip Ralph Ramona Raymond Regina Renata Richard Roger
Roland Rose Ruby Rudolf Russell Ruth Sally Samuel Sandra Scott Sean Sebastian Sergio Sharon
Sheila Silvia Sonia Stella Stephen Susan Sylvia Tanya Thomas Timothy Tobias Tony Valerie
Vanessa Vincent Virginia Wayne Wesley Yvonne""".split()

PET_NAMES = """Milo Luna Rex Bella Max Coco Shadow Felix Daisy Buddy Misty Tiger Oreo Simba
Nala Rocky Pepper Ginger Smokey Whiskers Fluffy Spot Biscuit Cookie Muffin Socks Patches
Snowy Blacky Rusty Sandy Bubbles Nemo Goldie Kiwi Mango Peanut Pickles Pumpkin Waffles Ziggy
Archie Bandit Bruno Casper Charlie Chester Cleo Dexter Duke Finn Gizmo Gus Harley Honey
Jasper Jet Kiki Lola Lucky Marley Maple Minnie Mocha Molly Nugget Olive Otis Penny Pip Poppy
Prince Roxy Sadie Salem Scout Sparky Stella Sugar Teddy Toby Toffee Trixie Tucker Turbo
Willow Winston Yoshi Zeus Zorro Fang Ruffles Velvet Storm Comet""".split()

PLACES = """Paris London Rome Berlin Madrid Vienna Prague Lisbon Dublin Oslo Helsinki
Stockholm Athens Budapest Warsaw Brussels Amsterdam Geneva Zurich Munich Hamburg Milan
Venice Naples Florence Barcelona Seville Porto Lyon Nice Marseille Bordeaux Edinburgh
Glasgow Cardiff Bristol Leeds York Oxford Cambridge Boston Chicago Denver Dallas Houston
Seattle Portland Miami Atlanta Detroit Toronto Montreal Vancouver Tokyo Kyoto Osaka Seoul
Beijing Shanghai Delhi Mumbai Bangkok Hanoi Jakarta Manila Sydney Melbourne Perth Auckland
Cairo Tunis Lagos Nairobi Accra Dakar Lima Bogota Quito Santiago Havana Istanbul Ankara
Tehran Baghdad Beirut Amman Doha Dubai Moscow Kiev Minsk Riga Vilnius Tallinn Sofia
Bucharest Belgrade Zagreb Sarajevo Skopje Tirana Norway Spain Italy Greece Portugal Iceland
Ireland Scotland Wales France Germany Poland Hungary Austria Canada Mexico Brazil Peru Chile
Japan Korea India Egypt Kenya Morocco Turkey Sweden Denmark Finland Croatia Cyprus Malta
Bali Hawaii Alaska Texas Florida""".split()

COLOURS = """red blue green yellow orange purple black white brown pink grey silver gold
turquoise violet beige maroon cream lilac crimson scarlet teal olive navy indigo""".split()

FOODS = """pizza pasta soup salad rice bread cheese chicken fish curry sushi tacos pancakes
waffles noodles dumplings lasagna risotto stew porridge beans lentils potatoes burgers
sandwiches omelette ramen paella goulash falafel hummus kebab ravioli gnocchi couscous chili
steak meatballs""".split()
FRUITS = """apples bananas cherries grapes lemons mangoes oranges peaches pears plums
strawberries raspberries blueberries melons kiwis apricots figs pineapples limes papayas""".split()
DRINKS = """tea coffee water milk juice lemonade cocoa cider soda coke beer wine matcha
espresso cappuccino buttermilk""".split()
ANIMALS = """cat dog horse lion tiger elephant giraffe rabbit fox wolf bear owl eagle
penguin dolphin whale otter panda koala zebra monkey hedgehog squirrel deer swan frog turtle
camel goat sheep""".split()
SPORTS = """football tennis swimming running cycling basketball volleyball hockey golf rugby
cricket skiing rowing boxing climbing judo karate badminton baseball surfing fencing archery
yoga""".split()
HOBBIES = """painting reading cooking gardening knitting singing dancing fishing hiking
drawing baking photography chess pottery sewing camping writing woodworking astronomy
birdwatching juggling origami""".split()
JOBS = """teacher doctor nurse baker farmer pilot lawyer painter writer singer dancer chef
driver engineer plumber carpenter butcher tailor dentist gardener librarian cook waiter
banker judge soldier sailor scientist programmer musician actor architect mechanic
electrician photographer journalist barber florist vet pharmacist potter translator
firefighter postman cleaner builder clown designer""".split()
INSTRUMENTS = """piano guitar violin drums flute cello trumpet harp clarinet saxophone
accordion banjo organ trombone ukulele bass""".split()
SEASONS = "spring summer autumn winter".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = """January February March April May June July August September October November
December""".split()
SUBJECTS = """maths history physics biology chemistry geography music art French German
Spanish Latin English""".split()
ITEMS = """eggs milk bread butter flour sugar salt rice cheese apples bananas onions carrots
tomatoes potatoes soap candles paper batteries matches honey jam tea coffee yogurt oil
garlic lemons spinach noodles""".split()
WORDS = """sun moon river stone tree cloud window garden lamp table bridge mountain ocean
island forest castle dragon pirate rocket planet feather button pocket ladder basket candle
mirror pillow blanket hammer needle bottle kettle spoon silver golden happy quiet quick
gentle brave tiny giant purple velvet winter summer morning evening music story letter paper
pencil thunder lightning rainbow harbor lantern compass anchor saddle whistle marble copper
walnut pepper ginger cinnamon butterfly sparrow falcon""".split()
PETS = """cat dog hamster rabbit parrot turtle horse goldfish pony snake lizard canary
ferret mouse""".split()
RELATIVES = """brother sister mother father friend wife husband son daughter boss neighbour
teacher aunt uncle cousin grandmother grandfather nephew niece roommate doctor dentist
landlord""".split()
OBJECTS = """car bike house door coat hat bag umbrella sofa boat tent kitchen bedroom scarf
phone""".split()
THINGS = """keys glasses wallet passport phone umbrella book gloves charger watch ring
ticket camera laptop""".split()
SPOTS = """in the drawer|on the table|under the bed|in the kitchen|on the shelf|in the car|
in my bag|behind the door|in the garage|on the desk|in the cupboard|next to the lamp|
on the sofa|in the attic|under the chair|in my pocket|in the bathroom|on the windowsill|
in the cellar|behind the clock""".replace("\n", "").split("|")
PLANS = """visit the museum|go to the dentist|play tennis|bake a cake|meet my sister|
clean the house|go swimming|see a film|paint the fence|visit my aunt|wash the car|
go to the market|read a book|cook dinner|go hiking|fix the bike|plant tomatoes|
go to a concert|call my mother|buy new shoes|take an exam|go fishing|fly to Rome|
have a party|go to the library|sing in the choir|play chess|visit the zoo|write a letter|
go to the gym|move house|see the doctor|ride a horse|go skating|mow the lawn|pick apples|
give a talk|watch football""".replace("\n", "").split("|")
NUMBERED = """room number|lucky number|house number|locker number|bus number|flat number|
seat number|ticket number|table number|shoe size|jersey number|door code|
gate number""".replace("\n", "").split("|")

COUNTED = """cats dogs children brothers sisters books cars bikes cousins plants hens
guitars watches houses friends sons daughters""".split()
COUNTS = "two three four five six seven eight nine ten twelve twenty 3 4 6 11 15 30".split()
MEETINGS = """meeting train dinner flight exam class lunch appointment concert interview
party""".split()

CONSONANTS = "b c d f g h j k l m n p r s t v w z br dr fl gr kl st tr sh th ch".split()
VOWELS = "a e i o u a e i o ia ea oo".split()
ENDINGS = ["", "", "n", "r", "s", "l", "k", "x", "nd", "th", "m", "t"]


def syllable_name(rng):
    """A pronounceable name that nobody has; the only way to say it is to copy it."""
    return "".join(
        rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.choice([1, 2, 2, 3]))
    ).capitalize() + rng.choice(ENDINGS)


class Values:
    """Draws values of each type: with UNSEEN only held-out ones, with False (training) never one,
    with None any."""

    def __init__(self, rng, unseen=False):
        self.rng = rng
        self.unseen = unseen

    def _pick(self, words, invent):
        rng = self.rng
        while True:
            word = syllable_name(rng) if rng.random() < invent else rng.choice(words)
            if self.unseen is None or held_out(word) == self.unseen:
                return word

    def draw(self, kind):
        rng = self.rng
        if kind == "person":
            return self._pick(NAMES, 0.4)
        if kind == "pet":
            return self._pick(PET_NAMES, 0.4)
        if kind == "place":
            return self._pick(PLACES, 0.3)
        if kind == "number":
            return str(rng.randrange(1, rng.choice([10, 100, 1000, 10000])))
        if kind == "phone":
            return "".join(rng.choice("0123456789") for _ in range(rng.randrange(5, 8)))
        if kind == "count":
            return rng.choice(COUNTS)
        if kind == "time":
            hour = rng.randrange(1, 13)
            return rng.choice(["%d o'clock" % hour, "%d:%d5" % (hour, rng.randrange(1, 6)),
                               "%d:30" % hour, "%d pm" % hour, "%d am" % hour])
        if kind == "title":
            words = [self._pick(WORDS, 0.1).capitalize() for _ in range(rng.choice([1, 2, 2]))]
            return rng.choice(["The ", "The ", ""]) + " ".join(words)
        if kind == "age":
            return str(rng.randrange(2, 99))
        if kind == "date":
            return "%d %s" % (rng.randrange(1, 29), rng.choice(MONTHS))
        if kind == "pair":
            return "%s and %s" % (self._pick(PET_NAMES, 0.3), self._pick(NAMES, 0.3))
        if kind == "word":
            return self._pick(WORDS, 0.2).lower()
        if kind == "items":
            some = rng.sample(ITEMS, rng.choice([2, 3, 3, 4]))
            return ", ".join(some[:-1]) + " and " + some[-1]
        return rng.choice(LISTS[kind])


LISTS = {
    "colour": COLOURS, "food": FOODS, "fruit": FRUITS, "drink": DRINKS, "animal": ANIMALS,
    "sport": SPORTS, "hobby": HOBBIES, "job": JOBS, "instrument": INSTRUMENTS, "season": SEASONS,
    "day": DAYS, "month": MONTHS, "subject": SUBJECTS, "spot": SPOTS, "plan": PLANS,
}
