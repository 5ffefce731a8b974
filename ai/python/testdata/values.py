'one ' "two " r'\three ' """four
five"""; AFTER = 1
NOTHING, _ = None, 1
NOTHING = None
YES, NO = True, False
YES = True; NO = (False)
INTS = 0, 00, 1_000, 0xFFFFFFFFFFFFFFFFFFFF, 0o17, 0b101, -7, +7, -(0)
FLOATS = [0.0, -0.0, 1., .5, 1e16, 123456789012345.0, 1e-5, 0.0001, 1_0e2, 5e-324, 1.7976931348623157e308]
TEXTS = [
    '', "it's", 'a\
b', '\\\'\"\a\b\f\n\r\t\v', '\0\7\377\777', '\x41\u00e9\U0001F600', '\q\8\ ', r'\n\'', u'ünï', """a "quoted" 'text'
""",
]
NESTED = {"a": [(), [], {}, set(), {1, 1, "x"}], "b": {"c": (1,)}, "a": ((2))}
ﬁeld = "folded"
𝐁𝐎𝐋𝐃: str = "bold"
NAMED = "\N{EM DASH}"
HALF = ["\ud83d\ude00"]
KEYS = {"a": 1, 2: 3}
HUGE = [1e999, {3: 4}]
BAD = "\x4"
FAR = "\U00110000"
BYTES = b"a"
IMAGINARY = [1j, 1 + 2j]
SUM = "a" + "b"
LOST = [1]
LOST += [2]
KEPT = 1
KEPT.x = 2
KEPT[0], OTHER = 3, 4
del KEPT.x, (KEPT)[0]
CHAINED = FIRST = 1
DELETED = "a"
del (DELETED), NOTHING
AGAIN = 1
AGAIN = AGAIN + 1
AGAIN = 2
