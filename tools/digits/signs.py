"""The characters that are not digits: letters, scripts and pictograms of each family, and the held-out families.

Characters are split by family, and related families are in the same split: Thai and Lao, Telugu and Kannada, and Hebrew
and its Rashi script are all held out. Of the pictograms, colour emoji and two sets of icons are held out. Characters
that look like digits are excluded from all splits: characters that Unicode classifies as numbers or as confusable with
one, and characters that coincide with a digit, such as `O` with `0` and `l` with `1` (`lookalikes.py`). The lists were
fixed before any network was scored on them.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

from .fonts import FONT_DIRECTORY

# Words in the Unicode names of characters that show digits.
NUMBER_WORDS = (
    "DIGIT",
    "NUMBER",
    "NUMERAL",
    "KEYCAP",
    "HUNDRED",
    "EIGHTEEN",
    "BILLIARDS",
    "CALENDAR",
    "PLACE MEDAL",
    "PLAYING CARD",
    "DOMINO",
    "MAHJONG",
    "ZERO",
)
NUMBER_NAMES = ("numeric", "number", "roman", "digital", "counter")  # the same for the names of icons

# The characters used from text fonts: Latin, Greek, Cyrillic, punctuation, arrows, mathematics and dingbats.
TEXT_RANGES = ((0x21, 0x250), (0x370, 0x530), (0x1E00, 0x1FFF), (0x2010, 0x27C0))
# Latin, Greek and Cyrillic letters that some people or fonts draw like a digit, even if a given font does not. They are
# grouped by the digit that they resemble: 0; 1; 2 to 5; and 6, 8 and 9.
ALSO_DIGITS = frozenset(
    "Oo\u0398\u03b8\u039f\u03bf\u041e\u043e"
    "Iil|!\u0131\u0399\u03b9\u0406\u0456\u04c0\u2223"
    "Zz\u0417\u0437\u042d\u044d\u0427\u0447Ss\u0405\u0455"
    "Gb\u0431Bgq"
)
# Additional letters that are excluded from training: reversed, barred, hooked and ligatured letters that some fonts
# draw like a digit. The validation and held-out sets still contain them, as they did when they were first scored.
BARELY_LETTERS = frozenset(
    "\u00d8\u00f8\u00de\u00fe\u00df\u0131\u017f\u019f\u0275\u01a7\u01a8\u01bc\u01bd\u0184\u0185\u01b7\u0292\u021c\u021d\u0222\u0223"
    "\u0190\u025b\u025c\u0258\u0259\u0298\u029a\u025e\u0261\u0241\u0242\u0294\u0298\u03c3\u03b4\u03d0\u03e8\u03e9\u03ec\u03ed"
    "\u0498\u0499\u04e0\u04e1\u04d8\u04d9\u0472\u0473\u04e8\u04e9\u0500\u0501\u2205\u2300\u25cb\u25ef\u2b55\u2b58\u2aef\u2223\u2758\u2759"
)
PRIVATE_USE = range(0xE000, 0xF900)


HELD_OUT_SCRIPTS = (
    "Armenian",
    "CanadianAboriginal",
    "Cherokee",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Hebrew",
    "Kannada",
    "Lao",
    "LinearB",
    "Mongolian",
    "OlChiki",
    "Runic",
    "Telugu",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Vai",
)
VALIDATION_SCRIPTS = (
    "Balinese",
    "Bamum",
    "Gothic",
    "Gujarati",
    "Javanese",
    "Khmer",
    "Lycian",
    "OldHungarian",
    "OldTurkic",
    "Osage",
    "Osmanya",
    "Shavian",
    "Sinhala",
    "Tamil",
    "Yi",
)
TRAINING_SCRIPTS = (
    "Adlam",
    "AnatolianHieroglyphs",
    "Arabic",
    "Avestan",
    "BassaVah",
    "Batak",
    "Bengali",
    "Brahmi",
    "Buginese",
    "Carian",
    "Chakma",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Deseret",
    "Devanagari",
    "Duployan",
    "EgyptianHieroglyphs",
    "Elbasan",
    "Grantha",
    "Gurmukhi",
    "HanifiRohingya",
    "Hanunoo",
    "Kharoshthi",
    "Lepcha",
    "Limbu",
    "LinearA",
    "Lisu",
    "Lydian",
    "Malayalam",
    "Mandaic",
    "MendeKikakui",
    "Meroitic",
    "Miao",
    "Myanmar",
    "NKo",
    "Nushu",
    "Ogham",
    "OldItalic",
    "OldPermic",
    "OldPersian",
    "OldSouthArabian",
    "Oriya",
    "PahawhHmong",
    "PhagsPa",
    "Phoenician",
    "SignWriting",
    "Sogdian",
    "SylotiNagri",
    "Syriac",
    "Tagalog",
    "TaiLe",
    "Tangut",
    "Thaana",
    "Ugaritic",
    "WarangCiti",
)

# Maps each pictogram family to the pattern of its files under FONT_DIRECTORY.
HELD_OUT_PICTOGRAMS = {
    "Noto Color Emoji": "truetype/noto/NotoColorEmoji.ttf",
    "Elusive Icons": "truetype/elusive-icons/elusiveicons-webfont.ttf",
    "Glyphicons Halflings": "truetype/glyphicons/glyphicons-halflings-regular.ttf",
}
VALIDATION_PICTOGRAMS = {
    "D050000L": "opentype/urw-base35/D050000L.otf",
    "Entypo": "truetype/fonts-entypo/entypo.ttf",
    "OpenSymbol": "truetype/libreoffice/opens___.ttf",
}
TRAINING_PICTOGRAMS = {
    "Font Awesome": "truetype/font-awesome/fontawesome-webfont.ttf",
    "Material Design Icons": "truetype/materialdesignicons-webfont/materialdesignicons-webfont.ttf",
    "Noto Music": "truetype/noto/NotoMusic-*.ttf",
    "Noto Sans Symbols": "truetype/noto/NotoSansSymbols*-*.ttf",
    "Symbola": "truetype/ancient-scripts/Symbola_hint.ttf",
}


def script_patterns(scripts: tuple[str, ...]) -> dict[str, str]:
    """Return a file pattern for the Noto fonts of each script, keyed by family."""
    return {f"Noto {script}": f"truetype/noto/Noto*[a-z]{script}*-*.ttf" for script in scripts}


def is_number(character: str) -> bool:
    """True if Unicode classifies a character as a number, or if its name says that it shows a number."""
    name = unicodedata.name(character, "")
    return unicodedata.category(character)[0] == "N" or any(word in name for word in NUMBER_WORDS)


def _is_drawn(character: str) -> bool:
    """True if a character has ink by itself: a letter, punctuation, a symbol, or an icon without a meaning."""
    category = unicodedata.category(character)
    return category[0] in "LPS" or (category == "Co" and ord(character) in PRIVATE_USE)


def _is_text(code: int) -> bool:
    return any(low <= code < high for low, high in TEXT_RANGES)


def text_signs(path: Path) -> str:
    """Return the characters of a text font in TEXT_RANGES that are drawn and not numbers."""
    every = (chr(code) for code in _glyph_names(path) if _is_text(code))
    return "".join(c for c in every if _is_drawn(c) and not is_number(c) and _without_accent(c) not in ALSO_DIGITS)


def _without_accent(character: str) -> str:
    return unicodedata.normalize("NFD", character)[0]


def teaches(character: str) -> bool:
    """True if a character is certainly a non-digit: neither the character nor its plain form (without bold or circle)
    can pass for a digit."""
    plain = unicodedata.normalize("NFKD", character)[0]
    return not is_number(plain) and plain not in ALSO_DIGITS | BARELY_LETTERS


def script_signs(path: Path) -> str:
    """Return the characters of a script's own font, without Latin, common punctuation and symbols."""
    shared = ((0, 0x370), (0x1E00, 0x1FFF), (0x2000, 0x2C00), (0xA700, 0xA800), (0xFB00, 0xFB07))
    return "".join(
        c
        for c in map(chr, _glyph_names(path))
        if not any(low <= ord(c) < high for low, high in shared)
        and ord(c) not in PRIVATE_USE
        and _is_drawn(c)
        and not is_number(c)
    )


def pictogram_signs(path: Path) -> str:
    """Return the pictures of a symbol font: icons, and the characters that follow Unicode's arrows.

    Characters that show numbers are omitted.
    """
    return "".join(
        c
        for c, name in ((chr(code), name) for code, name in _glyph_names(path).items())
        if ord(c) >= 0x2190 and _is_drawn(c) and not is_number(c) and not _names_number(name)
    )


def _names_number(name: str) -> bool:
    has_name = not name.startswith(("uni", "u1", "_"))
    return has_name and (any(letter.isdigit() for letter in name) or any(word in name for word in NUMBER_NAMES))


@cache
def _glyph_names(path: Path) -> dict[int, str]:
    """Return the code and the glyph name of each character in a font."""
    from fontTools.ttLib import TTFont

    with TTFont(str(path), lazy=True, fontNumber=0) as font:
        return dict(sorted(font.getBestCmap().items()))


def find_files(pattern: str) -> list[Path]:
    """Return the files of a family. Raises FileNotFoundError if it is not installed."""
    files = sorted(FONT_DIRECTORY.glob(pattern))
    if not files:
        raise FileNotFoundError(f"no font at {FONT_DIRECTORY / pattern}; tools/README.md lists the packages")
    return files
