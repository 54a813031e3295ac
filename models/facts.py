# SPDX-License-Identifier: MIT
"""The facts a person may tell: how they tell them, ask for them, and hear them said back.

A fact's `say` is the one wording in which the assistant repeats it, in the acknowledgement and in
the answer, so that recalling is finding the newest sentence of that wording.  All that names the
fact stands before the value: by the time the value is due, the reply itself says what to look for.
"""

from vocabulary import (COUNTED, DAYS, MEETINGS, NUMBERED, OBJECTS, PETS, RELATIVES, THINGS,
                        WORDS)


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

    def __init__(self, ident, values, tell, ask, say, what, fix=(), check=(), who=""):
        self.ident, self.values, self.who = ident, values, who
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
    return ["My %s is {v}." % key, "My %s is {v}." % key,
            "Please remember that my %s is {v}." % key,
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
             ["My name is {v}.", "My name is {v}.", "I'm {v}.", "Hi, I'm {v}.",
              "Hello, my name is {v}.",
              "Call me {v}.", "I am {v}.", "You can call me {v}.", "Hi! I am called {v}.",
              "People call me {v}.", "This is {v}.", "{v} is my name.", "Hey, it's {v} here."],
             noun_asks("name", ["Who am I?", "What am I called?", "Do you know who I am?"]),
             "your name is {v}", "your name",
             noun_fixes("name") + ["Actually, call me {v}."], ["Is my name {v}?"]),
        noun_fact("job", "job", "job",
                  ["I work as {a}.", "I am {a}.", "I'm {a} by trade.", "I earn my living as {a}."],
                  ["What do I do for a living?", "What do I work as?"],
                  ["Actually, I work as {a}."]),
        Fact("home", "place",
             ["I live in {v}.", "I live in {v}.", "My home is in {v}.", "I have a flat in {v}.",
              "I moved to {v} last year, so I live in {v}.", "By the way, I live in {v}.",
              "I'm living in {v}.", "I live in {v} with my family.", "My house is in {v}."],
             ["Where do I live?", "Where is my home?", "Do you know where I live?",
              "Do you remember where I live?", "Which place do I live in?",
              "Where did I say I live?",
              "Tell me where I live."],
             "you live in {v}", "where you live",
             ["Actually, I live in {v}, not {o}.", "I moved. Now I live in {v}.",
              "Sorry, I live in {v}.", "I don't live in {o}, I live in {v}."],
             ["Do I live in {v}?"]),
        Fact("born", "place",
             ["I was born in {v}.", "I was born and raised in {v}.", "I was born in {v} long ago."],
             ["Where was I born?", "Do you know where I was born?", "In which place was I born?",
              "Do you remember where I was born?"],
             "you were born in {v}", "where you were born",
             ["Actually, I was born in {v}, not {o}.", "Sorry, I was born in {v}."],
             ["Was I born in {v}?"]),
        Fact("from", "place",
             ["I'm from {v}.", "I come from {v}.", "I am from {v}."],
             ["Where am I from?", "Where do I come from?", "Do you know where I am from?"],
             "you come from {v}", "where you come from",
             ["Actually, I come from {v}, not {o}.", "Sorry, I'm from {v}."], ["Am I from {v}?"]),
        Fact("like", rng.choice(["food", "fruit", "drink", "sport", "hobby"]),
             ["I like {v}.", "I really like {v}.", "I love {v}.", "I enjoy {v}."],
             ["What do I like?", "Do you remember what I like?", "What do I love?"],
             "you like {v}", "what you like", ["Actually, I like {v}, not {o}."],
             ["Do I like {v}?"]),
        Fact("allergy", rng.choice(["food", "fruit", "animal"]),
             ["I'm allergic to {v}.", "I am allergic to {v}."],
             ["What am I allergic to?", "Do you remember what I am allergic to?"],
             "you are allergic to {v}", "what you are allergic to",
             ["Actually, I am allergic to {v}, not {o}."], ["Am I allergic to {v}?"]),
        noun_fact("phone", "phone", "phone number", ["You can call me on {v}."]),
        noun_fact("postcode", "phone", "postcode"),
        noun_fact("surname", "person", "last name", ["My surname is {v}."],
                  ["What is my surname?"]),
        Fact("work", "place",
             ["I work in {v}.", "My office is in {v}.", "I go to work in {v} every day."],
             ["Where do I work?", "Do you know where I work?", "Where is my office?"],
             "you work in {v}", "where you work",
             ["Actually, I work in {v}, not {o}.", "Sorry, I work in {v}."], ["Do I work in {v}?"]),
        Fact("holiday", "place",
             ["I am going on holiday to {v}.", "My next holiday is in {v}.",
              "I will travel to {v} soon.",
              "I'm going to {v} for my holiday.", "I plan a trip to {v}."],
             ["Where am I going on holiday?", "Where is my next holiday?", "Where will I travel?",
              "Do you remember where I am going on holiday?", "Where is my trip going?"],
             "you are going on holiday to {v}", "where you are going on holiday",
             ["Actually, I am going on holiday to {v}, not {o}.",
              "Change of plan: my holiday is in {v}."],
             ["Am I going on holiday to {v}?"]),
        Fact("age", "age",
             ["I am {v} years old.", "I'm {v} years old.", "I am {v}.", "My age is {v}.",
              "I turned {v} last week."],
             ["How old am I?", "What is my age?", "Do you know how old I am?",
              "Do you remember my age?"],
             "your age is {v}", "your age",
             ["Actually, I am {v} years old, not {o}.", "Sorry, I am {v} years old."],
             ["Am I {v} years old?"]),
        noun_fact("birthday", "date", "birthday",
                  ["I was born on {v}, that's my birthday.", "My birthday is on {v}."],
                  ["When is my birthday?", "When do I have my birthday?"]),
        noun_fact("secret", "word", "secret word", ["The secret word is {v}."],
                  ["What is the secret word?", "What's the secret word?"]),
        noun_fact("pass", "word", "code word", ["Our code word is {v}."],
                  ["What is the code word?"]),
        noun_fact("wifi", "word", "password", ["I set the password to {v}."],
                  ["What's the password?"]),
        Fact("list", "items",
             ["My shopping list is {v}.", "I need to buy {v}.", "On my shopping list are {v}.",
              "Remember my shopping list: {v}.", "I have to buy {v} today."],
             ["What is on my shopping list?", "What do I need to buy?",
              "What's on my shopping list?",
              "What did I want to buy?", "Read me my shopping list.", "What is my shopping list?"],
             "your shopping list is {v}", "your shopping list",
             ["Actually, I need to buy {v}.", "New shopping list: {v}."]),
        Fact("plays", "instrument",
             ["I play the {v}.", "I am learning the {v}.", "I play the {v} in a band."],
             ["What instrument do I play?", "Which instrument do I play?",
              "Do you remember what I play?"],
             "you play the {v}", "which instrument you play",
             ["Actually, I play the {v}, not the {o}."], ["Do I play the {v}?"]),
        noun_fact("hobby", "hobby", "hobby",
                  ["In my free time I do {v}.", "My hobby, by the way, is {v}."],
                  ["What do I do in my free time?"]),
        noun_fact("team", "colour", "team colour"),
    ]
    for pet in PETS:
        key = pet + "'s name"
        facts.append(noun_fact(
            "pet-" + pet, "pet", key,
            ["My %s is called {v}." % pet, "I have %s called {v}." % a(pet),
             "I have %s. Its name is {v}." % a(pet), "I have %s named {v}." % a(pet),
             "We got %s, and we call it {v}." % a(pet), "{v} is my %s." % pet,
             "I have %s and its name is {v}." % a(pet), "My %s is named {v}." % pet],
            ["What is my %s called?" % pet, "What's the name of my %s?" % pet,
             "Do you remember the name of my %s?" % pet, "How is my %s called?" % pet],
            ["Actually, my %s is called {v}, not {o}." % pet,
             "Sorry, my %s is called {v}." % pet]))
    for pet in PETS[:8]:
        facts.append(Fact(
            "petcolour-" + pet, "colour", ["My %s is {v}." % pet, "I have %s, it is {v}." % a(pet)],
            ["What colour is my %s?" % pet, "Which colour does my %s have?" % pet,
             "Do you remember what colour my %s is?" % pet],
            "the colour of your %s is {v}" % pet, "the colour of your %s" % pet,
            ["Actually, my %s is {v}, not {o}." % pet], ["Is my %s {v}?" % pet]))
    for pet in PETS[:8]:
        facts.append(Fact(
            "petage-" + pet, "age", ["My %s is {v} years old." % pet, "My %s turned {v}." % pet],
            ["How old is my %s?" % pet, "Do you know how old my %s is?" % pet],
            "your %s's age is {v}" % pet, "your %s's age" % pet,
            ["Actually, my %s is {v} years old, not {o}." % pet]))
    for pet in PETS[:6]:
        facts.append(Fact(
            "pair-" + pet, "pair",
            ["I have two %ss, {v}." % pet, "My %ss are called {v}." % pet,
             "I have two %ss. Their names are {v}." % pet],
            ["What are my %ss called?" % pet, "What are the names of my %ss?" % pet,
             "What are my %ss' names?" % pet, "Do you remember my %ss?" % pet],
            "your %ss are called {v}" % pet, "what your %ss are called" % pet,
            ["Actually, my %ss are called {v}." % pet, "Sorry, my %ss are {v}." % pet]))
    for things in COUNTED:
        facts.append(Fact(
            "count-" + things, "count",
            ["I have {v} %s." % things, "By the way, I have {v} %s." % things],
            ["How many %s do I have?" % things, "Do you know how many %s I have?" % things,
             "Do you remember how many %s I have?" % things],
            "the number of your %s is {v}" % things, "the number of your %s" % things,
            ["Actually, I have {v} %s, not {o}." % things, "Sorry, I have {v} %s." % things],
            ["Do I have {v} %s?" % things]))
    for thing in MEETINGS:
        facts.append(Fact(
            "time-" + thing, "time",
            ["My %s is at {v}." % thing, "My %s starts at {v}." % thing,
             "I have %s at {v}." % a(thing)],
            ["When is my %s?" % thing, "What time is my %s?" % thing,
             "At what time is my %s?" % thing,
             "Do you remember when my %s is?" % thing],
            "your %s is at {v}" % thing, "when your %s is" % thing,
            ["Actually, my %s is at {v}, not {o}." % thing, "My %s was moved to {v}." % thing],
            ["Is my %s at {v}?" % thing]))
    for who in RELATIVES:
        key = who + "'s name"
        facts.append(noun_fact(
            "rel-" + who, "person", key,
            ["My %s is called {v}." % who, "I have %s called {v}." % a(who),
             "{v} is my %s." % who, "My %s is named {v}." % who, "My %s {v} came to see me." % who,
             "I visited my %s {v}." % who, "I have %s and the name is {v}." % a(who)],
            ["What is my %s called?" % who, "What's the name of my %s?" % who,
             "Who is my %s?" % who,
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
            "your %s's age is {v}" % who, "your %s's age" % who,
            ["Actually, my %s is {v} years old, not {o}." % who]))
    for key, kind in [("colour", "colour"), ("color", "colour"), ("food", "food"),
                      ("fruit", "fruit"),
                      ("drink", "drink"), ("animal", "animal"), ("sport", "sport"),
                      ("season", "season"), ("day", "day"), ("month", "month"), ("city", "place"),
                      ("number", "number"), ("subject", "subject"), ("book", "title"),
                      ("film", "title"), ("song", "title"), ("movie", "title"), ("band", "title"),
                      ("name", "person"), ("instrument", "instrument")]:
        like = ["{v} is my favourite %s." % key]
        if kind not in ("number", "place", "title", "person"):
            like.append("I like {v} best of all %ss." % key)
        facts.append(noun_fact("fav-" + key, kind, "favourite " + key, like,
                               ["Which %s do I like best?" % key, "What %s do I like most?" % key]))
        who = rng.choice(RELATIVES)
        facts.append(noun_fact("relfav-" + who + key, kind, "%s's favourite %s" % (who, key)))
        if key != "colour":
            facts.append(noun_fact("usfav-" + key, kind, "favorite " + key))
    for key in NUMBERED:
        facts.append(noun_fact("num-" + key, "number", key, ["The %s is {v}." % key],
                               ["What is the %s?" % key]))
    for thing in OBJECTS:
        facts.append(Fact(
            "colour-" + thing, "colour",
            ["My %s is {v}." % thing, "I have {a} %s." % thing, "I bought {a} %s." % thing,
             "I painted my %s {v}." % thing],
            ["What colour is my %s?" % thing, "Which colour is my %s?" % thing,
             "What color is my %s?" % thing, "Do you remember the colour of my %s?" % thing,
             "What is the colour of my %s?" % thing],
            "the colour of your %s is {v}" % thing, "the colour of your %s" % thing,
            ["Actually, my %s is {v}, not {o}." % thing, "Sorry, my %s is {v}." % thing,
             "My %s isn't {o}, it's {v}." % thing], ["Is my %s {v}?" % thing]))
    for thing in THINGS:
        be = "are" if thing in ("keys", "glasses", "gloves") else "is"
        facts.append(Fact(
            "spot-" + thing, "spot",
            ["I put my %s {v}." % thing, "My %s %s {v}." % (thing, be),
             "I left my %s {v}." % thing],
            ["Where %s my %s?" % (be, thing), "Where did I put my %s?" % thing,
             "Do you know where my %s %s?" % (thing, be), "Where did I leave my %s?" % thing],
            "your %s %s {v}" % (thing, be), "where your %s %s" % (thing, be),
            ["Actually, my %s %s {v}." % (thing, be), "I moved my %s. Now they are {v}." % thing
             if be == "are" else "I moved my %s. Now it is {v}." % thing]))
    for day in DAYS + ["the weekend", "my birthday"]:
        facts.append(Fact(
            "plan-" + day, "plan",
            ["On %s I will {v}." % day, "I am going to {v} on %s." % day,
             "I want to {v} on %s." % day,
             "I plan to {v} on %s." % day, "My plan for %s is to {v}." % day],
            ["What will I do on %s?" % day, "What am I going to do on %s?" % day,
             "What is my plan for %s?" % day, "What are my plans for %s?" % day,
             "What did I plan for %s?" % day],
            "on %s you will {v}" % yours(day), "your plan for %s" % yours(day),
            ["Actually, on %s I will {v}." % day, "Change of plan: on %s I will {v}." % day]))
    for _ in range(5):
        key = " ".join(rng.sample(WORDS, rng.choice([1, 2, 2])))
        facts.append(Fact(
            "thing-" + key, rng.choice(["number", "colour", "word", "place", "person"]),
            ["The %s is {v}." % key, "Remember: the %s is {v}." % key,
             "Please remember that the %s is {v}." % key],
            ["What is the %s?" % key, "What's the %s?" % key, "Do you remember the %s?" % key],
            "the %s is {v}" % key, "what the %s is" % key,
            ["Actually, the %s is {v}, not {o}." % key, "Now the %s is {v}." % key],
            ["Is the %s {v}?" % key]))
    for _ in range(6):
        who = values.draw("person")
        facts += [
            Fact("home-" + who, "place",
                 ["%s lives in {v}." % who, "My friend %s lives in {v}." % who,
                  "%s has a house in {v}, that's where %s lives." % (who, who)],
                 ["Where does %s live?" % who, "Do you know where %s lives?" % who],
                 "%s lives in {v}" % who, "where %s lives" % who,
                 ["Actually, %s lives in {v}, not {o}." % who],
                 ["Does %s live in {v}?" % who], who),
            Fact("likes-" + who, rng.choice(["food", "fruit", "drink", "sport"]),
                 ["%s likes {v}." % who, "%s really likes {v}." % who],
                 ["What does %s like?" % who, "Do you remember what %s likes?" % who],
                 "%s likes {v}" % who, "what %s likes" % who,
                 ["Actually, %s likes {v}, not {o}." % who], ["Does %s like {v}?" % who], who),
            Fact("job-" + who, "job", ["%s is {a}." % who, "%s works as {a}." % who],
                 ["What is %s's job?" % who, "What does %s do?" % who],
                 "%s's job is {v}" % who, "%s's job" % who,
                 ["Actually, %s works as {a}." % who], ["Is %s {a}?" % who], who),
        ]
    return facts
