# SPDX-License-Identifier: MIT
"""Written dialogues for the bundled model: a generator, deterministic by seed.

A dialogue is a list of (role, text, learn) triples; `learn` says whether the
trainer takes loss on that message.  People tell the assistant facts about their
life, talk of other things, and ask for the facts much later.  Three rules make
a very small model good at it:

* the assistant says each fact back in one fixed wording ("your cat's name is
  Tom"), so recalling is finding the newest sentence of that wording;
* a reply follows from what was said, with little free choice, so that the loss
  is spent on remembering and not on guessing which greeting is meant;
* values come from long lists and from generated syllables, so that a name has
  to be copied and cannot be learned by heart.

Values and pairs of numbers for which held_out() is true never occur in training;
the evaluation uses only those wherever a kind of fact has enough of them.
"""

import argparse
import json
import random
import zlib


def held_out(value):
    """True for the tenth of all names, places and pairs that training never sees."""
    return zlib.crc32(value.lower().encode()) % 10 == 3


NAMES = """Anna Ben Clara David Emma Felix Grace Hugo Ivy Jack Kate Leo Mia Noah Olivia Paul
Quinn Rosa Sam Tina Uma Victor Wendy Xavier Yara Zoe Adam Bella Carl Diana Eric Fiona George Hannah
Ian Julia Kevin Laura Mark Nina Oscar Petra Robert Sarah Tom Ursula Vera William Alice Bob Carol
Daniel Eva Frank Gina Henry Irene James Karen Liam Maria Nathan Olga Peter Rachel Simon Teresa Lucas
Walter Amelia Boris Chloe Dylan Elena Finn Gloria Harry Isabel Jonas Klara Lukas Martha Nico Otto
Pavel Rita Stefan Tara Ulrich Viktor Wanda Agnes Bruno Cecilia Dario Edith Fabian Greta Harold Ines
Jan Katya Lars Monica Nadia Omar Paula Raul Sofia Theo Umberto Violet Wilma Yusuf Zara Aisha Bela
Chen Dmitri Esther Farid Gabor Hiro Ingrid Jamal Kenji Leila Mehmet Naomi Ahmed Priya Ravi Sven Tomas
Aaron Abigail Albert Andrea Angela Anton Arthur Barbara Beatrice Bernard Brian Bridget Caleb Camilla
Charles Charlotte Christine Colin Cora Cynthia Dennis Derek Dora Doris Douglas Edgar Edward Eleanor
Elias Ellen Emil Emily Ernest Ethan Eugene Evelyn Flora Florence Gavin Gerald Gordon Graham Gustav
Hazel Heidi Helen Hilda Holly Howard Iris Isaac Jacob Janet Jasmine Jason Jean Jenny Jeremy Jerome
Joan Joel John Jordan Joseph Joyce Judith Julian June Karl Keith Kim Kurt Lena Leonard Leslie Lewis
Lily Linda Lisa Logan Lorenzo Louis Louise Lucy Luis Lydia Mabel Magda Malcolm Marco Margaret Marina
Mario Marion Martin Mary Mason Matilda Matthew Maurice Max Megan Melissa Michael Mona Morgan Nancy
Nathalie Neil Nelson Nicole Nigel Nora Norman Oliver Owen Pamela Patricia Patrick Pearl Philip Ralph
Ramona Raymond Regina Renata Richard Roger Roland Rose Ruby Rudolf Russell Ruth Sally Samuel Sandra
Scott Sean Sebastian Sergio Sharon Sheila Silvia Sonia Stella Stephen Susan Sylvia Tanya Thomas
Timothy Tobias Tony Valerie Vanessa Vincent Virginia Wayne Wesley Yvonne""".split()

PET_NAMES = """Milo Luna Rex Bella Max Coco Shadow Felix Daisy Buddy Misty Tiger Oreo Simba Nala Rocky
Pepper Ginger Smokey Whiskers Fluffy Spot Biscuit Cookie Muffin Socks Patches Snowy Blacky Rusty Sandy
Bubbles Nemo Goldie Kiwi Mango Peanut Pickles Pumpkin Waffles Ziggy Archie Bandit Bruno Casper Charlie
Chester Cleo Dexter Duke Finn Gizmo Gus Harley Honey Jasper Jet Kiki Lola Lucky Marley Maple Minnie
Mocha Molly Nugget Olive Otis Penny Pip Poppy Prince Roxy Sadie Salem Scout Sparky Stella Sugar Teddy
Toby Toffee Trixie Tucker Turbo Willow Winston Yoshi Zeus Zorro Fang Ruffles Velvet Storm Comet""".split()

PLACES = """Paris London Rome Berlin Madrid Vienna Prague Lisbon Dublin Oslo Helsinki Stockholm Athens
Budapest Warsaw Brussels Amsterdam Geneva Zurich Munich Hamburg Milan Venice Naples Florence Barcelona
Seville Porto Lyon Nice Marseille Bordeaux Edinburgh Glasgow Cardiff Bristol Leeds York Oxford Cambridge
Boston Chicago Denver Dallas Houston Seattle Portland Miami Atlanta Detroit Toronto Montreal Vancouver
Tokyo Kyoto Osaka Seoul Beijing Shanghai Delhi Mumbai Bangkok Hanoi Jakarta Manila Sydney Melbourne
Perth Auckland Cairo Tunis Lagos Nairobi Accra Dakar Lima Bogota Quito Santiago Havana Istanbul Ankara
Tehran Baghdad Beirut Amman Doha Dubai Moscow Kiev Minsk Riga Vilnius Tallinn Sofia Bucharest Belgrade
Zagreb Sarajevo Skopje Tirana Norway Spain Italy Greece Portugal Iceland Ireland Scotland Wales France
Germany Poland Hungary Austria Canada Mexico Brazil Peru Chile Japan Korea India Egypt Kenya Morocco
Turkey Sweden Denmark Finland Croatia Cyprus Malta Bali Hawaii Alaska Texas Florida""".split()

COLOURS = """red blue green yellow orange purple black white brown pink grey silver gold turquoise
violet beige maroon cream lilac crimson scarlet teal olive navy indigo""".split()

FOODS = """pizza pasta soup salad rice bread cheese chicken fish curry sushi tacos pancakes waffles
noodles dumplings lasagna risotto stew porridge beans lentils potatoes burgers sandwiches omelette
ramen paella goulash falafel hummus kebab ravioli gnocchi couscous chili steak meatballs""".split()
FRUITS = """apples bananas cherries grapes lemons mangoes oranges peaches pears plums strawberries
raspberries blueberries melons kiwis apricots figs pineapples limes papayas""".split()
DRINKS = """tea coffee water milk juice lemonade cocoa cider soda coke beer wine matcha espresso
cappuccino buttermilk""".split()
ANIMALS = """cat dog horse lion tiger elephant giraffe rabbit fox wolf bear owl eagle penguin dolphin
whale otter panda koala zebra monkey hedgehog squirrel deer swan frog turtle camel goat sheep""".split()
SPORTS = """football tennis swimming running cycling basketball volleyball hockey golf rugby cricket
skiing rowing boxing climbing judo karate badminton baseball surfing fencing archery yoga""".split()
HOBBIES = """painting reading cooking gardening knitting singing dancing fishing hiking drawing baking
photography chess pottery sewing camping writing woodworking astronomy birdwatching juggling
origami""".split()
JOBS = """teacher doctor nurse baker farmer pilot lawyer painter writer singer dancer chef driver
engineer plumber carpenter butcher tailor dentist gardener librarian cook waiter banker judge soldier
sailor scientist programmer musician actor architect mechanic electrician photographer journalist
barber florist vet pharmacist potter translator firefighter postman cleaner builder clown
designer""".split()
INSTRUMENTS = """piano guitar violin drums flute cello trumpet harp clarinet saxophone accordion banjo
organ trombone ukulele bass""".split()
SEASONS = "spring summer autumn winter".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = """January February March April May June July August September October November
December""".split()
SUBJECTS = """maths history physics biology chemistry geography music art French German Spanish Latin
English""".split()
ITEMS = """eggs milk bread butter flour sugar salt rice cheese apples bananas onions carrots tomatoes
potatoes soap candles paper batteries matches honey jam tea coffee yogurt oil garlic lemons spinach
noodles""".split()
WORDS = """sun moon river stone tree cloud window garden lamp table bridge mountain ocean island forest
castle dragon pirate rocket planet feather button pocket ladder basket candle mirror pillow blanket
hammer needle bottle kettle spoon silver golden happy quiet quick gentle brave tiny giant purple velvet
winter summer morning evening music story letter paper pencil thunder lightning rainbow harbor lantern
compass anchor saddle whistle marble copper walnut pepper ginger cinnamon butterfly sparrow
falcon""".split()
PETS = """cat dog hamster rabbit parrot turtle horse goldfish pony snake lizard canary ferret
mouse""".split()
RELATIVES = """brother sister mother father friend wife husband son daughter boss neighbour teacher
aunt uncle cousin grandmother grandfather nephew niece roommate doctor dentist
landlord""".split()
OBJECTS = "car bike house door coat hat bag umbrella sofa boat tent kitchen bedroom scarf phone".split()
THINGS = """keys glasses wallet passport phone umbrella book gloves charger watch ring ticket camera
laptop""".split()
SPOTS = """in the drawer|on the table|under the bed|in the kitchen|on the shelf|in the car|in my bag|
behind the door|in the garage|on the desk|in the cupboard|next to the lamp|on the sofa|in the attic|
under the chair|in my pocket|in the bathroom|on the windowsill|in the cellar|behind the
clock""".replace("\n", " ").replace("| ", "|").split("|")
PLANS = """visit the museum|go to the dentist|play tennis|bake a cake|meet my sister|clean the house|
go swimming|see a film|paint the fence|visit my aunt|wash the car|go to the market|read a book|
cook dinner|go hiking|fix the bike|plant tomatoes|go to a concert|call my mother|buy new shoes|
take an exam|go fishing|fly to Rome|have a party|go to the library|sing in the choir|
play chess|visit the zoo|write a letter|go to the gym|move house|see the doctor|ride a horse|
go skating|mow the lawn|pick apples|give a talk|watch football""".replace("\n", "").split("|")
NUMBERED = """room number|lucky number|house number|locker number|bus number|flat number|seat number|
ticket number|table number|shoe size|jersey number|door code|
gate number""".replace("\n", "").split("|")

CONSONANTS = "b c d f g h j k l m n p r s t v w z br dr fl gr kl st tr sh th ch".split()
VOWELS = "a e i o u a e i o ia ea oo".split()
ENDINGS = ["", "", "n", "r", "s", "l", "k", "x", "nd", "th", "m", "t"]


def syllable_name(rng):
    """A pronounceable name that nobody has; the only way to say it is to copy it."""
    return "".join(
        rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.choice([1, 2, 2, 3]))
    ).capitalize() + rng.choice(ENDINGS)


class Values:
    """Draws values of each type; in training never a held-out one, in evaluation only those."""

    def __init__(self, rng, unseen=False):
        self.rng = rng
        self.unseen = unseen

    def _pick(self, words, invent):
        rng = self.rng
        while True:
            word = syllable_name(rng) if rng.random() < invent else rng.choice(words)
            if held_out(word) == self.unseen:
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


def yours(text):
    """The value as the assistant says it back: 'in my bag' becomes 'in your bag'."""
    return " ".join("your" if word == "my" else word for word in text.split(" "))


def british(text):
    """One spelling for favorite colors and favourite colours, which are the same fact."""
    return text.replace("favorite", "favourite").replace("color", "colour")


def a(word):
    return ("an " if word[0].lower() in "aeiou" else "a ") + word


class Fact:
    """One thing a person may tell: how to tell it, ask for it, and say it back."""

    def __init__(self, ident, values, tell, ask, say, what, fix=(), check=()):
        self.ident, self.values = ident, values
        self.tell, self.ask, self.say, self.what = tell, ask, say, what
        self.fix, self.check = list(fix), list(check)


def noun_asks(key, short):
    """Ways to ask for 'my KEY'; SHORT are the kind's own ones, drawn more often."""
    return list(short) * 2 + [
        "What is my %s?" % key, "What's my %s?" % key, "Do you remember my %s?" % key,
        "Can you tell me my %s?" % key, "Tell me my %s." % key, "Do you know my %s?" % key,
        "What was my %s again?" % key, "Remind me, what is my %s?" % key,
        "What did I say my %s was?" % key,
    ]


def noun_tells(key):
    return ["My %s is {v}." % key, "My %s is {v}." % key, "Please remember that my %s is {v}." % key,
            "By the way, my %s is {v}." % key, "You should know that my %s is {v}." % key,
            "Just so you know, my %s is {v}." % key]


def noun_fixes(key):
    return ["Actually, my %s is {v}, not {o}." % key, "Sorry, my %s is {v}." % key,
            "No wait, my %s is {v}, not {o}." % key, "I was wrong, my %s is {v}." % key,
            "Correction: my %s is {v}." % key, "My %s isn't {o}, it's {v}." % key,
            "My %s has changed. It is {v} now." % key, "I made a mistake. My %s is {v}." % key]


def noun_fact(ident, values, key, tell=(), ask=(), fix=()):
    return Fact(ident, values, noun_tells(key) + list(tell) * 2, noun_asks(key, ask),
                "your %s is {v}" % key, "your %s" % key, noun_fixes(key) + list(fix),
                ["Is my %s {v}?" % key])


def make_facts(rng, values):
    """All facts that may come up in one dialogue, some about people invented for it."""
    facts = [
        Fact("name", "person",
             ["My name is {v}.", "My name is {v}.", "I'm {v}.", "Hi, I'm {v}.", "Hello, my name is {v}.",
              "Call me {v}.", "I am {v}.", "You can call me {v}.", "Hi! I am called {v}."],
             noun_asks("name", ["Who am I?", "What am I called?", "Do you know who I am?"]),
             "your name is {v}", "your name",
             noun_fixes("name") + ["Actually, call me {v}."], ["Is my name {v}?"]),
        noun_fact("job", "job", "job",
                  ["I work as {a}.", "I am {a}.", "I'm {a} by trade.", "I earn my living as {a}."],
                  ["What do I do for a living?", "What do I work as?"],
                  ["Actually, I work as {a}."]),
        Fact("home", "place",
             ["I live in {v}.", "I live in {v}.", "My home is in {v}.", "I have a flat in {v}.",
              "I moved to {v} last year, so I live in {v}.", "By the way, I live in {v}."],
             ["Where do I live?", "Where is my home?", "Do you know where I live?",
              "Do you remember where I live?", "Which place do I live in?", "Where did I say I live?",
              "Tell me where I live."],
             "you live in {v}", "where you live",
             ["Actually, I live in {v}, not {o}.", "I moved. Now I live in {v}.",
              "Sorry, I live in {v}.", "I don't live in {o}, I live in {v}."],
             ["Do I live in {v}?"]),
        Fact("born", "place",
             ["I was born in {v}.", "I come from {v}, I was born there.", "I was born in {v} long ago."],
             ["Where was I born?", "Do you know where I was born?", "In which place was I born?",
              "Do you remember where I was born?"],
             "you were born in {v}", "where you were born",
             ["Actually, I was born in {v}, not {o}.", "Sorry, I was born in {v}."],
             ["Was I born in {v}?"]),
        Fact("work", "place",
             ["I work in {v}.", "My office is in {v}.", "I go to work in {v} every day."],
             ["Where do I work?", "Do you know where I work?", "Where is my office?"],
             "you work in {v}", "where you work",
             ["Actually, I work in {v}, not {o}.", "Sorry, I work in {v}."], ["Do I work in {v}?"]),
        Fact("holiday", "place",
             ["I am going on holiday to {v}.", "My next holiday is in {v}.", "I will travel to {v} soon.",
              "I'm going to {v} for my holiday.", "I plan a trip to {v}."],
             ["Where am I going on holiday?", "Where is my next holiday?", "Where will I travel?",
              "Do you remember where I am going on holiday?", "Where is my trip going?"],
             "you are going on holiday to {v}", "where you are going on holiday",
             ["Actually, I am going on holiday to {v}, not {o}.", "Change of plan: my holiday is in {v}."],
             ["Am I going on holiday to {v}?"]),
        Fact("age", "age",
             ["I am {v} years old.", "I'm {v} years old.", "My age is {v}.", "I turned {v} last week."],
             ["How old am I?", "What is my age?", "Do you know how old I am?", "Do you remember my age?"],
             "you are {v} years old", "how old you are",
             ["Actually, I am {v} years old, not {o}.", "Sorry, I am {v} years old."],
             ["Am I {v} years old?"]),
        noun_fact("birthday", "date", "birthday",
                  ["I was born on {v}, that's my birthday.", "My birthday is on {v}."],
                  ["When is my birthday?", "When do I have my birthday?"]),
        noun_fact("secret", "word", "secret word", ["The secret word is {v}."],
                  ["What is the secret word?", "What's the secret word?"]),
        noun_fact("pass", "word", "code word", ["Our code word is {v}."], ["What is the code word?"]),
        noun_fact("wifi", "word", "password", ["I set the password to {v}."], ["What's the password?"]),
        Fact("list", "items",
             ["My shopping list is {v}.", "I need to buy {v}.", "On my shopping list are {v}.",
              "Remember my shopping list: {v}.", "I have to buy {v} today."],
             ["What is on my shopping list?", "What do I need to buy?", "What's on my shopping list?",
              "What did I want to buy?", "Read me my shopping list.", "What is my shopping list?"],
             "your shopping list is {v}", "your shopping list",
             ["Actually, I need to buy {v}.", "New shopping list: {v}."]),
        Fact("plays", "instrument",
             ["I play the {v}.", "I am learning the {v}.", "I play the {v} in a band."],
             ["What instrument do I play?", "Which instrument do I play?",
              "Do you remember what I play?"],
             "you play the {v}", "which instrument you play",
             ["Actually, I play the {v}, not the {o}."], ["Do I play the {v}?"]),
        noun_fact("hobby", "hobby", "hobby", ["In my free time I like {v}.", "I love {v}, it's my hobby."],
                  ["What do I like to do in my free time?"]),
        noun_fact("team", "colour", "team colour"),
    ]
    for pet in PETS:
        key = pet + "'s name"
        facts.append(noun_fact(
            "pet-" + pet, "pet", key,
            ["My %s is called {v}." % pet, "I have %s called {v}." % a(pet),
             "I have %s. Its name is {v}." % a(pet), "I have %s named {v}." % a(pet),
             "We got %s, and we call it {v}." % a(pet)],
            ["What is my %s called?" % pet, "What's the name of my %s?" % pet,
             "Do you remember the name of my %s?" % pet, "How is my %s called?" % pet],
            ["Actually, my %s is called {v}, not {o}." % pet,
             "Sorry, my %s is called {v}." % pet]))
    for pet in PETS[:8]:
        facts.append(Fact(
            "petcolour-" + pet, "colour", ["My %s is {v}." % pet, "I have %s, it is {v}." % a(pet)],
            ["What colour is my %s?" % pet, "Which colour does my %s have?" % pet,
             "Do you remember what colour my %s is?" % pet],
            "your %s is {v}" % pet, "what colour your %s is" % pet,
            ["Actually, my %s is {v}, not {o}." % pet], ["Is my %s {v}?" % pet]))
    for who in RELATIVES:
        key = who + "'s name"
        facts.append(noun_fact(
            "rel-" + who, "person", key,
            ["My %s is called {v}." % who, "I have %s called {v}." % a(who),
             "{v} is my %s." % who, "My %s is named {v}." % who, "My %s {v} came to see me." % who],
            ["What is my %s called?" % who, "What's the name of my %s?" % who, "Who is my %s?" % who,
             "Do you remember the name of my %s?" % who],
            ["Actually, my %s is called {v}, not {o}." % who]))
        facts.append(Fact(
            "reljob-" + who, "job",
            ["My %s is {a}." % who, "My %s works as {a}." % who, "My %s's job is {v}." % who],
            ["What does my %s do?" % who, "What is my %s's job?" % who,
             "What does my %s work as?" % who],
            "your %s's job is {v}" % who, "your %s's job" % who,
            ["Actually, my %s works as {a}." % who], ["Is my %s {a}?" % who]))
        facts.append(Fact(
            "relhome-" + who, "place",
            ["My %s lives in {v}." % who, "My %s moved to {v}." % who],
            ["Where does my %s live?" % who, "Do you know where my %s lives?" % who],
            "your %s lives in {v}" % who, "where your %s lives" % who,
            ["Actually, my %s lives in {v}, not {o}." % who], ["Does my %s live in {v}?" % who]))
        facts.append(Fact(
            "relage-" + who, "age",
            ["My %s is {v} years old." % who, "My %s turned {v}." % who],
            ["How old is my %s?" % who, "Do you know how old my %s is?" % who],
            "your %s is {v} years old" % who, "how old your %s is" % who,
            ["Actually, my %s is {v} years old, not {o}." % who]))
    for key, kind in [("colour", "colour"), ("color", "colour"), ("food", "food"), ("fruit", "fruit"),
                      ("drink", "drink"), ("animal", "animal"), ("sport", "sport"),
                      ("season", "season"), ("day", "day"), ("month", "month"), ("city", "place"),
                      ("number", "number"), ("subject", "subject")]:
        like = [] if kind in ("number", "place") else ["I like {v} best of all %ss." % key]
        facts.append(noun_fact("fav-" + key, kind, "favourite " + key, like,
                               ["Which %s do I like best?" % key]))
        if key != "colour":
            facts.append(noun_fact("usfav-" + key, kind, "favorite " + key))
    for key in NUMBERED:
        facts.append(noun_fact("num-" + key, "number", key, ["The %s is {v}." % key],
                               ["What is the %s?" % key]))
    for thing in OBJECTS:
        facts.append(Fact(
            "colour-" + thing, "colour",
            ["My %s is {v}." % thing, "I have a {v} %s." % thing, "I bought a {v} %s." % thing,
             "I painted my %s {v}." % thing],
            ["What colour is my %s?" % thing, "Which colour is my %s?" % thing,
             "What color is my %s?" % thing, "Do you remember the colour of my %s?" % thing,
             "What is the colour of my %s?" % thing],
            "your %s is {v}" % thing, "what colour your %s is" % thing,
            ["Actually, my %s is {v}, not {o}." % thing, "Sorry, my %s is {v}." % thing,
             "My %s isn't {o}, it's {v}." % thing], ["Is my %s {v}?" % thing]))
    for thing in THINGS:
        be = "are" if thing in ("keys", "glasses", "gloves") else "is"
        facts.append(Fact(
            "spot-" + thing, "spot",
            ["I put my %s {v}." % thing, "My %s %s {v}." % (thing, be), "I left my %s {v}." % thing],
            ["Where %s my %s?" % (be, thing), "Where did I put my %s?" % thing,
             "Do you know where my %s %s?" % (thing, be), "Where did I leave my %s?" % thing],
            "your %s %s {v}" % (thing, be), "where your %s %s" % (thing, be),
            ["Actually, my %s %s {v}." % (thing, be), "I moved my %s. Now they are {v}." % thing
             if be == "are" else "I moved my %s. Now it is {v}." % thing]))
    for day in DAYS + ["the weekend", "my birthday"]:
        facts.append(Fact(
            "plan-" + day, "plan",
            ["On %s I will {v}." % day, "I am going to {v} on %s." % day, "I want to {v} on %s." % day,
             "I plan to {v} on %s." % day, "My plan for %s is to {v}." % day],
            ["What will I do on %s?" % day, "What am I going to do on %s?" % day,
             "What is my plan for %s?" % day, "What are my plans for %s?" % day,
             "What did I plan for %s?" % day],
            "on %s you will {v}" % yours(day), "your plan for %s" % yours(day),
            ["Actually, on %s I will {v}." % day, "Change of plan: on %s I will {v}." % day]))
    for _ in range(6):
        who = values.draw("person")
        facts += [
            Fact("home-" + who, "place",
                 ["%s lives in {v}." % who, "My friend %s lives in {v}." % who,
                  "%s has a house in {v}, that's where %s lives." % (who, who)],
                 ["Where does %s live?" % who, "Do you know where %s lives?" % who],
                 "%s lives in {v}" % who, "where %s lives" % who,
                 ["Actually, %s lives in {v}, not {o}." % who], ["Does %s live in {v}?" % who]),
            Fact("likes-" + who, rng.choice(["food", "fruit", "drink", "sport"]),
                 ["%s likes {v}." % who, "%s really likes {v}." % who],
                 ["What does %s like?" % who, "Do you remember what %s likes?" % who],
                 "%s likes {v}" % who, "what %s likes" % who,
                 ["Actually, %s likes {v}, not {o}." % who], ["Does %s like {v}?" % who]),
            Fact("job-" + who, "job", ["%s is {a}." % who, "%s works as {a}." % who],
                 ["What is %s's job?" % who, "What does %s do?" % who],
                 "%s's job is {v}" % who, "%s's job" % who,
                 ["Actually, %s works as {a}." % who], ["Is %s {a}?" % who]),
        ]
    return facts


TALK = [
    (["Hello!", "Hi!", "Hi there!", "Hello there.", "Hey!", "Good day!"],
     "Hello! How can I help you?"),
    (["Good morning!", "Good morning."], "Good morning! How can I help you?"),
    (["Good evening!", "Good evening."], "Good evening! How can I help you?"),
    (["How are you?", "How are you doing?", "How do you do?", "How's it going?", "Are you well?"],
     "I'm fine, thank you. How are you?"),
    (["I'm fine, thanks.", "I am fine too.", "I'm good.", "I am well.", "Not bad."],
     "I'm glad to hear that."),
    (["Thank you!", "Thanks.", "Thanks a lot!", "Thank you very much.", "Great, thanks!"],
     "You're welcome!"),
    (["What can you do?", "How can you help me?", "What are you good at?", "Help", "What do you do?"],
     "I can chat, remember what you tell me, add numbers, count and make lists."),
    (["Who are you?", "What are you?", "Introduce yourself.", "Tell me about yourself."],
     "I'm a small language model that runs on this computer."),
    (["What's your name?", "What is your name?", "Do you have a name?", "How are you called?"],
     "I have no name. I'm a small language model."),
    (["Are you a human?", "Are you a person?", "Are you real?", "Are you a robot?", "Are you an AI?"],
     "I'm a small language model, not a person."),
    (["Who made you?", "Where do you come from?", "Who trained you?"],
     "I was made by the confab project."),
    (["I'm tired.", "I am so tired today.", "I slept badly.", "I am exhausted."],
     "I'm sorry to hear that. I hope you can rest soon."),
    (["I'm happy today.", "I feel great!", "I am in a good mood.", "Today is a good day."],
     "That's wonderful!"),
    (["I'm sad.", "I feel sad today.", "I had a bad day.", "I am lonely."],
     "I'm sorry to hear that. Do you want to talk about it?"),
    (["I'm bored.", "I am so bored."], "Shall we play a game? Ask me to add two numbers."),
    (["I'm hungry.", "I am very hungry."], "Then it's time to eat something."),
    (["It's raining today.", "It is raining.", "The weather is bad.", "It's cold outside."],
     "Then it's a good day to stay inside."),
    (["The sun is shining.", "The weather is nice today.", "It's a lovely day.", "It's warm outside."],
     "How lovely! Enjoy the day."),
    (["Tell me a joke.", "Do you know a joke?", "Make me laugh."],
     "Why did the chicken cross the road? To get to the other side!"),
    (["Tell me another joke.", "Another joke, please."],
     "What is brown and sticky? A stick!"),
    (["Tell me a story.", "Tell me a short story."],
     "Once a small boat sailed to an island, found a friend there, and came home happy."),
    (["Okay.", "OK", "Alright.", "I see.", "Fine."], "Good. What would you like to talk about?"),
    (["Yes.", "Yes, please.", "Sure."], "Good. Please tell me more."),
    (["No.", "No, thanks.", "Not really."], "All right."),
    (["Let's talk.", "Can we talk?", "I want to chat.", "Let us chat a little."],
     "Gladly! What would you like to talk about?"),
    (["I went for a walk.", "I took a long walk today.", "I was in the park today."],
     "That sounds relaxing."),
    (["I just had lunch.", "I had a good breakfast.", "I cooked dinner."], "I hope it tasted good."),
    (["I watched a film yesterday.", "I saw a good film."], "I hope you enjoyed it."),
    (["I read a good book.", "I'm reading a book."], "Reading is a fine way to spend time."),
    (["I have a lot of work.", "Work was busy today.", "I have too much to do."],
     "Take it one step at a time."),
    (["I like you.", "You are nice.", "Well done!", "Good job!", "You are clever.", "That's right."],
     "Thank you, that's kind of you."),
    (["That's wrong.", "You are wrong.", "That is not right."],
     "I'm sorry. Please tell me what is right."),
    (["I don't understand.", "What do you mean?"], "I'm sorry. Please ask me in another way."),
    (["How old are you?", "What is your age?"], "I'm a language model, so I have no age."),
    (["Where do you live?", "Where are you?"], "I live in this computer."),
    (["Do you have a pet?", "Do you have a cat?", "Do you have friends?"],
     "No, I'm a language model."),
    (["Do you like music?", "What's your favourite colour?", "What do you like?", "Do you like me?"],
     "I like talking with you."),
    (["Can you remember things?", "Do you remember what I say?", "Will you remember that?"],
     "Yes, I remember what you tell me in this chat."),
    (["What time is it?", "What day is it today?", "What is the date today?"],
     "I don't know, I have no clock."),
    (["How is the weather?", "What's the weather like?"], "I don't know, I can't look outside."),
    (["Wait a moment.", "Give me a minute.", "One moment, please."], "Take your time."),
    (["I'm back.", "Here I am again.", "I am here again."], "Welcome back!"),
    (["Guess what!", "You know what?", "I have news."], "What is it?"),
    (["Let me tell you about my life.", "I want to tell you something.", "Listen."],
     "Please go on, I'm listening."),
    (["What comes next?", "What now?", "What shall we do?"], "You could tell me something about you."),
    (["How many days are in a week?"], "A week has seven days."),
    (["How many months are in a year?"], "A year has twelve months."),
    (["How many hours are in a day?"], "A day has 24 hours."),
    (["What colour is the sky?"], "The sky is blue."),
    (["What colour is grass?"], "Grass is green."),
    (["What is the capital of France?"], "The capital of France is Paris."),
    (["What is the capital of Italy?"], "The capital of Italy is Rome."),
    (["What is the capital of Germany?"], "The capital of Germany is Berlin."),
    (["What is the capital of Spain?"], "The capital of Spain is Madrid."),
    (["What is the capital of England?"], "The capital of England is London."),
]
FAREWELL = (["Bye!", "Goodbye.", "See you later.", "Good night.", "I have to go now.", "Bye bye."],
            "Goodbye! It was nice talking to you.")
SYSTEM = ["You are a helpful assistant.", "You are a helpful assistant.", "You are a friendly assistant.",
          "You are a small chat model. Answer briefly.", "Be brief.", "Answer in one sentence.",
          "You are a helpful AI assistant.", "You remember what the user tells you.",
          "You are an assistant who talks with people about their day."]
OFF_TOPIC = ["What is {t}?", "Tell me about {t}.", "How does {t} work?", "Explain {t} to me.",
             "Write a poem about {t}.", "Why is there {t}?", "Who invented {t}?",
             "Write an essay about {t}.", "What do you think about {t}?", "Can you explain {t}?",
             "What do you know about {t}?", "Who is {t}?", "Who was {t}?", "How do I make {t}?"]
TOPICS = """physics|gravity|the moon|the internet|democracy|electricity|photosynthesis|the economy|
computers|the Roman empire|a black hole|love|philosophy|chess|a volcano|the ocean|an engine|the
weather|artificial intelligence|the stock market|programming|Python|Linux|a compiler|history|war|
time|money|happiness|a robot|evolution|a bicycle|cheese|bread|an atom|energy|light|sound|glass|
mathematics|poetry|Napoleon|Einstein|Mozart|Shakespeare|Newton|the president|the
king""".replace("\n", " ").replace("| ", "|").split("|")
CATEGORIES = {"colours": COLOURS, "colors": COLOURS, "animals": ANIMALS, "fruits": FRUITS,
              "sports": SPORTS, "foods": FOODS, "drinks": DRINKS, "days": DAYS, "months": MONTHS,
              "jobs": JOBS, "cities": PLACES, "instruments": INSTRUMENTS, "hobbies": HOBBIES,
              "pets": PETS, "names": NAMES}
NUMBER_WORDS = {2: "two", 3: "three", 4: "four", 5: "five"}


def capital(text):
    return text[0].upper() + text[1:]


def join(words):
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else words[0]


def add_reply(x, y):
    """The sum in steps: the ones, the tens, the result, as people do it in their head."""
    if x < 10 and y < 10:
        return "%d + %d is %d." % (x, y, x + y)
    ones = "%d + %d is %d" % (x % 10, y % 10, x % 10 + y % 10)
    tens = "%d + %d is %d" % (x - x % 10, y - y % 10, x - x % 10 + y - y % 10)
    return "%s and %s, so %d + %d is %d." % (ones, tens, x, y, x + y)


def pair_held_out(x, y):
    """Held out in both orders, so that the sum cannot be known from the mirrored pair."""
    return x >= 10 and y >= 10 and held_out("%d+%d" % (min(x, y), max(x, y)))


ADD_ASKS = ["What is {x} + {y}?", "What is {x} plus {y}?", "{x} + {y}", "{x}+{y}", "{x} + {y} = ?",
            "What's {x} plus {y}?", "Add {x} and {y}.", "How much is {x} plus {y}?",
            "What is the sum of {x} and {y}?", "Can you add {x} and {y}?", "How much is {x} + {y}?",
            "Please add {x} and {y}.", "Calculate {x} + {y}."]


class Dialogue:
    """Builds one dialogue turn by turn and keeps what was told in it."""

    def __init__(self, rng, unseen=False):
        self.rng = rng
        self.values = Values(rng, unseen)
        self.unseen = unseen
        self.messages = []
        self.known = {}
        self.told_at = {}
        self.style = rng.choice(["plain"] * 7 + ["lower"] * 2 + ["bare"])
        self.facts = make_facts(rng, self.values)
        if rng.random() < 0.25:
            self.messages.append(("system", rng.choice(SYSTEM), False))

    def styled(self, text):
        """The person's way of typing; it holds for the whole dialogue, mostly."""
        style = self.style if self.rng.random() < 0.9 else "plain"
        if style == "plain":
            return text
        if text[-1] in ".?!" and self.rng.random() < 0.8:
            text = text[:-1]
        return text.lower() if style == "lower" else text

    def turn(self, user, reply, learn=True):
        self.messages.append(("user", user, False))
        self.messages.append(("assistant", reply, learn))

    def fact_text(self, fact, template, value, old=""):
        text = template.replace("{v}", value).replace("{o}", old)
        return text.replace("{a}", a(value)) if "{a}" in text else text

    def new_value(self, fact):
        while True:
            value = self.values.draw(fact.values)
            if value != self.known.get(fact.ident, ("",))[0]:
                return value

    def remember(self, fact, value):
        self.known[fact.ident] = (value, fact)
        self.told_at[fact.ident] = len(self.messages)

    def told(self, fact, value, text):
        """Says TEXT, which tells the value; the value is kept as it was typed."""
        text = self.styled(text)
        typed = value if value in text else value.lower()
        said = fact.say.replace("{v}", yours(typed))
        if text == text.lower() and fact.ident.split("-")[0] in ("home", "likes", "job"):
            said = said.lower()
        return text, typed, said

    def tell(self, fact=None, echo=None):
        rng = self.rng
        fact = fact or rng.choice(self.facts)
        if fact.ident in self.known:
            return self.correct(fact)
        value = self.new_value(fact)
        text, typed, said = self.told(fact, value, self.fact_text(fact, rng.choice(fact.tell), value))
        echo = rng.random() < 0.85 if echo is None else echo
        if echo:
            if fact.ident == "name":
                reply = "Nice to meet you, %s!" % typed
            else:
                reply = "Got it, %s." % said
        else:
            reply = rng.choice(["Okay.", "I will remember that.", "Thanks for telling me.",
                                "That's nice.", "Good to know."])
        self.turn(text, reply, echo)
        self.remember(fact, typed)
        return fact

    def tell_two(self):
        """Two facts in one message."""
        rng = self.rng
        one, two = rng.sample(self.facts, 2)
        if one.ident in self.known or two.ident in self.known or one.ident == two.ident:
            return self.tell()
        v1, v2 = self.new_value(one), self.new_value(two)
        t1 = self.fact_text(one, rng.choice(one.tell), v1)
        t2 = self.fact_text(two, rng.choice(two.tell), v2)
        text = self.styled(t1 + " " + t2)
        w1 = v1 if v1 in text else v1.lower()
        w2 = v2 if v2 in text else v2.lower()
        s1, s2 = one.say.replace("{v}", yours(w1)), two.say.replace("{v}", yours(w2))
        self.turn(text, "Got it, %s and %s." % (s1, s2))
        self.remember(one, w1)
        self.remember(two, w2)
        return two

    def correct(self, fact=None):
        rng = self.rng
        if fact is None:
            if not self.known:
                return self.tell()
            fact = self.known[rng.choice(sorted(self.known))][1]
        old = self.known[fact.ident][0]
        value = self.new_value(fact)
        text = self.fact_text(fact, rng.choice(fact.fix), value, old)
        text, typed, said = self.told(fact, value, text)
        self.turn(text, "Okay, %s." % said)
        self.remember(fact, typed)
        return fact

    def answer(self, fact):
        return capital(fact.say.replace("{v}", yours(self.known[fact.ident][0]))) + "."

    def ask(self, fact=None):
        rng = self.rng
        if not self.known:
            return self.tell()
        if fact is None:
            fact = self.known[rng.choice(sorted(self.known))][1]
        if fact.check and rng.random() < 0.07:
            right = self.known[fact.ident][0]
            value = right if rng.random() < 0.5 else self.new_value(fact)
            text = self.styled(self.fact_text(fact, rng.choice(fact.check), value))
            reply = ("Yes, " if value == right else "No, ") + self.answer_plain(fact)
        else:
            text, reply = self.styled(rng.choice(fact.ask)), self.answer(fact)
        self.turn(text, reply)
        return fact

    def answer_plain(self, fact):
        return fact.say.replace("{v}", yours(self.known[fact.ident][0])) + "."

    def ask_unknown(self, near=True):
        """Asks for something never told; mostly of a sort of which another was told."""
        rng = self.rng
        kinds = {ident.split("-")[0] for ident in self.known}
        for _ in range(20):
            fact = rng.choice(self.facts)
            if fact.ident in self.known or british(fact.what) in self.whats():
                continue
            if near and kinds and fact.ident.split("-")[0] not in kinds and rng.random() < 0.7:
                continue
            self.turn(self.styled(rng.choice(fact.ask)),
                      "I don't know, you haven't told me %s." % fact.what)
            return fact
        return None

    def whats(self):
        """What was told, under either spelling of favourite colour and the like."""
        return {british(known[1].what) for known in self.known.values()}

    def add(self, pair=None):
        rng = self.rng
        while pair is None:
            x = rng.randrange(10, 100) if rng.random() < 0.8 else rng.randrange(0, 10)
            y = rng.randrange(10, 100) if rng.random() < 0.8 else rng.randrange(0, 10)
            if not pair_held_out(x, y):
                pair = (x, y)
        x, y = pair
        text = rng.choice(ADD_ASKS).replace("{x}", str(x)).replace("{y}", str(y))
        self.turn(self.styled(text), add_reply(x, y))

    def count(self):
        rng = self.rng
        first = rng.randrange(0, 30)
        last = first + rng.randrange(2, 9)
        if rng.random() < 0.7:
            text = rng.choice(["Count from {x} to {y}.", "Please count from {x} to {y}.",
                               "Can you count from {x} to {y}?"])
            numbers = range(first, last + 1)
        else:
            text = rng.choice(["Count down from {y} to {x}.", "Count backwards from {y} to {x}."])
            numbers = range(last, first - 1, -1)
        if rng.random() < 0.2:
            last = rng.randrange(3, 11)
            text, numbers = "Count to {y}.", range(1, last + 1)
        self.turn(self.styled(text.replace("{x}", str(first)).replace("{y}", str(last))),
                  ", ".join(map(str, numbers)) + ".")

    def name_some(self):
        rng = self.rng
        kind = rng.choice(sorted(CATEGORIES))
        n = rng.choice([2, 3, 3, 4, 5])
        number = NUMBER_WORDS[n] if rng.random() < 0.6 else str(n)
        text = rng.choice(["Name {n} {k}.", "List {n} {k}.", "Tell me {n} {k}.", "Give me {n} {k}.",
                           "Can you name {n} {k}?", "Please name {n} {k}."])
        self.turn(self.styled(text.replace("{n}", number).replace("{k}", kind)),
                  capital(join(CATEGORIES[kind][:n])) + ".")

    def repeat(self):
        rng = self.rng
        words = []
        for _ in range(rng.randrange(2, 7)):
            words.append(self.values.draw(rng.choice(["word", "person", "place", "colour", "number"])))
        text = " ".join(words)
        ask = rng.choice(["Repeat after me: {t}.", "Say: {t}.", "Please repeat: {t}.",
                          "Repeat this: {t}."])
        user = self.styled(ask.replace("{t}", text))
        typed = text if text in user else text.lower()
        self.turn(user, capital(typed) + ".")

    def off_topic(self):
        rng = self.rng
        topic = rng.choice(TOPICS) if rng.random() < 0.6 else self.values.draw("word")
        self.turn(self.styled(rng.choice(OFF_TOPIC).replace("{t}", topic)),
                  "I'm a small model and don't know much about that.")

    def other_sums(self):
        rng = self.rng
        x, y = rng.randrange(1, 100), rng.randrange(1, 100)
        ask = rng.choice(["What is {x} - {y}?", "What is {x} times {y}?", "{x} * {y}",
                          "What is {x} minus {y}?", "Divide {x} by {y}.", "Multiply {x} by {y}.",
                          "What is {x} divided by {y}?", "{x} - {y}"])
        self.turn(self.styled(ask.replace("{x}", str(x)).replace("{y}", str(y))),
                  "I can only add numbers.")

    def next_day(self):
        rng = self.rng
        words = rng.choice([DAYS, MONTHS])
        i = rng.randrange(len(words))
        if rng.random() < 0.6:
            ask = "What comes after %s?" % words[i]
            reply = "%s comes after %s." % (words[(i + 1) % len(words)], words[i])
        else:
            ask = "What comes before %s?" % words[i]
            reply = "%s comes before %s." % (words[i - 1], words[i])
        self.turn(self.styled(ask), reply)

    def talk(self):
        asks, reply = self.rng.choice(TALK)
        self.turn(self.styled(self.rng.choice(asks)), reply)

    def filler(self):
        """A turn that tells nothing about the person."""
        draw = self.rng.random()
        if draw < 0.45:
            self.talk()
        elif draw < 0.70:
            self.add()
        elif draw < 0.78:
            self.name_some()
        elif draw < 0.84:
            self.count()
        elif draw < 0.89:
            self.off_topic()
        elif draw < 0.94:
            self.repeat()
        elif draw < 0.97:
            self.next_day()
        else:
            self.other_sums()

    def step(self):
        """One turn of a training dialogue."""
        draw = self.rng.random()
        if draw < 0.24:
            self.tell()
        elif draw < 0.27:
            self.tell_two()
        elif draw < 0.32:
            self.correct()
        elif draw < 0.60:
            self.ask()
        elif draw < 0.72:
            self.ask_unknown()
        else:
            self.filler()

    def n_turns(self):
        return sum(role == "user" for role, _, _ in self.messages)


def training_dialogue(rng, n_turns):
    """A dialogue of about N_TURNS exchanges; the oldest facts are asked for at the end."""
    dialogue = Dialogue(rng)
    if rng.random() < 0.3:
        dialogue.turn(dialogue.styled(rng.choice(TALK[0][0])), TALK[0][1])
    early = []
    for _ in range(rng.randrange(1, 1 + max(1, min(5, n_turns // 3)))):
        early.append(dialogue.tell())
    filler = rng.random() < 0.15
    while dialogue.n_turns() < n_turns - len(early):
        if filler and rng.random() < 0.8:
            dialogue.filler()
        else:
            dialogue.step()
    rng.shuffle(early)
    for fact in early:
        if rng.random() < 0.85:
            dialogue.ask(fact)
        else:
            dialogue.ask_unknown()
    if rng.random() < 0.15:
        dialogue.turn(dialogue.styled(rng.choice(FAREWELL[0])), FAREWELL[1])
    return dialogue.messages


# The evaluation: what the user says, and what the last reply must and must not say.

EVAL_KINDS = ("name", "pet", "rel", "fav", "num", "colour", "home", "born", "work", "holiday", "plan",
              "relhome", "spot", "job", "reljob", "secret", "age", "likes", "birthday")


def eval_dialogue(rng, sort, distance=20):
    """One unseen dialogue of SORT 'recall', 'corrected' or 'unknown'.

    Returns a dict: system text or "", the user's messages, the written replies (for checks that do
    not run a daemon; the last is the right answer), the word the last reply has to hold and the words it must not hold.
    """
    while True:
        dialogue = Dialogue(rng, unseen=True)
        dialogue.style = rng.choice(["plain", "plain", "plain", "lower"])
        facts = [f for f in dialogue.facts if f.ident.split("-")[0] in EVAL_KINDS]
        kind = rng.choice(EVAL_KINDS)
        fact = rng.choice([f for f in facts if f.ident.split("-")[0] == kind])
        old = None
        for _ in range(rng.randrange(0, 4)):
            other = rng.choice(facts)
            if british(other.what) != british(fact.what) and other.ident not in dialogue.known:
                dialogue.tell(other, echo=True)
        if sort != "unknown":
            dialogue.tell(fact, echo=True)
            if sort == "corrected":
                old = dialogue.known[fact.ident][0]
                for _ in range(rng.randrange(0, 4)):
                    dialogue.filler()
                dialogue.correct(fact)
        told = dialogue.n_turns()
        while dialogue.n_turns() < told + distance:
            draw = rng.random()
            if draw < 0.3:
                other = rng.choice(facts)
                if british(other.what) != british(fact.what) and other.ident not in dialogue.known:
                    dialogue.tell(other, echo=True)
            elif draw < 0.42:
                others = [i for i in sorted(dialogue.known) if i != fact.ident]
                if others:
                    dialogue.ask(dialogue.known[rng.choice(others)][1])
            else:
                dialogue.filler()
        reply = "I don't know, you haven't told me %s." % fact.what
        if sort != "unknown":
            reply = dialogue.answer(fact)
        dialogue.turn(dialogue.styled(rng.choice(fact.ask)), reply)
        texts = [m for m in dialogue.messages if m[0] == "user"]
        system = [m[1] for m in dialogue.messages if m[0] == "system"]
        result = {"sort": sort, "kind": kind, "system": system[0] if system else "",
                  "user": [m[1] for m in texts],
                  "replies": [m[1] for m in dialogue.messages if m[0] == "assistant"]}
        if sort == "unknown":
            result["want"] = ["don't know", "haven't told"]
            return result
        value = yours(dialogue.known[fact.ident][0])
        result["want"] = [value]
        result["avoid"] = [old] if old else []
        if old and (old.lower() in value.lower()):
            continue
        return result


def eval_sum(rng, unseen):
    """One sum of two two-digit numbers; UNSEEN: a pair that is not in the training data."""
    while True:
        x, y = rng.randrange(10, 100), rng.randrange(10, 100)
        if pair_held_out(x, y) == unseen:
            break
    text = rng.choice(ADD_ASKS[:8]).replace("{x}", str(x)).replace("{y}", str(y))
    return {"sort": "sum", "kind": "unseen pair" if unseen else "pair", "system": "", "user": [text],
            "replies": [add_reply(x, y)], "want": [str(x + y)]}


def case_messages(case):
    """A case of the evaluation as messages with the written replies, the last one to be learned."""
    messages = [("system", case["system"], False)] if case["system"] else []
    for user, reply in zip(case["user"], case["replies"]):
        messages += [("user", user, False), ("assistant", reply, False)]
    messages[-1] = messages[-1][:2] + (True,)
    return messages


def eval_set(seed=20261121, n_recall=200, n_unknown=100, n_sums=200, n_corrected=50):
    """The evaluation set; the same one for the same numbers and seed."""
    rng = random.Random("eval-%d" % seed)
    cases = [eval_dialogue(rng, "recall") for _ in range(n_recall)]
    cases += [eval_dialogue(rng, "unknown") for _ in range(n_unknown)]
    cases += [eval_sum(rng, i % 2 == 0) for i in range(n_sums)]
    cases += [eval_dialogue(rng, "corrected") for _ in range(n_corrected)]
    return cases


def main():
    parser = argparse.ArgumentParser(description="Print dialogues, one JSON object a line.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=3, help="how many training dialogues")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--eval", action="store_true", help="the evaluation set instead")
    parser.add_argument("--text", action="store_true", help="as plain text, to read")
    args = parser.parse_args()
    if args.eval:
        for case in eval_set():
            print(json.dumps(case))
        return
    rng = random.Random("train-%d" % args.seed)
    for _ in range(args.n):
        messages = training_dialogue(rng, args.turns)
        if args.text:
            print("\n".join("%s: %s" % (role, text) for role, text, _ in messages) + "\n")
        else:
            print(json.dumps([{"role": role, "content": text} for role, text, _ in messages]))


if __name__ == "__main__":
    main()
