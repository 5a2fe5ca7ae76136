"""Codes and names of languages: as headers of columns have them, as models name theirs, as clients of a service ask.

A tag is a code of BCP 47 as people write it, `fr` or `zh-Hans`. Models for many languages name theirs otherwise: NLLB
`fra_Latn`, OPUS-MT `fra`, M2M100 `fr`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

# Those that headers of columns may name.
LANGUAGE_NAMES = {
    "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan",
    "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French",
    "ga": "Irish", "gl": "Galician", "gu": "Gujarati", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian",
    "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese",
    "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "ko": "Korean", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian",
    "mk": "Macedonian", "mn": "Mongolian", "ms": "Malay", "my": "Burmese", "nb": "Norwegian Bokmål", "ne": "Nepali",
    "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili",
    "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu",
    "uz": "Uzbek", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
# What else M2M100 and NLLB translate.
_MORE_NAMES = {
    "ace": "Acehnese", "acm": "Mesopotamian Arabic", "acq": "Ta'izzi-Adeni Arabic", "aeb": "Tunisian Arabic",
    "af": "Afrikaans", "ajp": "South Levantine Arabic", "ak": "Akan", "am": "Amharic", "apc": "North Levantine Arabic",
    "ars": "Najdi Arabic", "ary": "Moroccan Arabic", "arz": "Egyptian Arabic", "as": "Assamese", "ast": "Asturian",
    "awa": "Awadhi", "ay": "Aymara", "azb": "South Azerbaijani", "ba": "Bashkir", "ban": "Balinese", "bem": "Bemba",
    "bho": "Bhojpuri", "bjn": "Banjar", "bm": "Bambara", "bo": "Tibetan", "br": "Breton", "bs": "Bosnian",
    "bug": "Buginese", "ceb": "Cebuano", "cjk": "Chokwe", "ckb": "Central Kurdish", "crh": "Crimean Tatar",
    "dik": "Southwestern Dinka", "dyu": "Dyula", "dz": "Dzongkha", "ee": "Ewe", "ff": "Fula", "fj": "Fijian",
    "fo": "Faroese", "fon": "Fon", "fur": "Friulian", "fy": "Western Frisian", "gd": "Scottish Gaelic", "gn": "Guarani",
    "ha": "Hausa", "hne": "Chhattisgarhi", "ht": "Haitian Creole", "ig": "Igbo", "ilo": "Ilocano", "jv": "Javanese",
    "kab": "Kabyle", "kac": "Jingpho", "kam": "Kamba", "kbp": "Kabiyè", "kea": "Kabuverdianu", "kg": "Kongo",
    "ki": "Kikuyu", "kmb": "Kimbundu", "kn": "Kannada", "kr": "Kanuri", "ks": "Kashmiri", "ku": "Kurdish",
    "ky": "Kyrgyz", "lb": "Luxembourgish", "lg": "Ganda", "li": "Limburgish", "lij": "Ligurian", "lmo": "Lombard",
    "ln": "Lingala", "ltg": "Latgalian", "lua": "Luba-Kasai", "luo": "Luo", "lus": "Mizo", "mag": "Magahi",
    "mai": "Maithili", "mg": "Malagasy", "mi": "Māori", "min": "Minangkabau", "ml": "Malayalam", "mni": "Manipuri",
    "mos": "Mossi", "mr": "Marathi", "mt": "Maltese", "nn": "Norwegian Nynorsk", "nso": "Northern Sotho",
    "nus": "Nuer", "ny": "Nyanja", "oc": "Occitan", "om": "Oromo", "or": "Odia", "pa": "Punjabi", "pag": "Pangasinan",
    "pap": "Papiamento", "prs": "Dari", "ps": "Pashto", "qu": "Quechua", "rn": "Rundi", "rw": "Kinyarwanda",
    "sa": "Sanskrit", "sat": "Santali", "sc": "Sardinian", "scn": "Sicilian", "sd": "Sindhi", "sg": "Sango",
    "shn": "Shan", "si": "Sinhala", "sm": "Samoan", "sn": "Shona", "so": "Somali", "ss": "Swati",
    "st": "Southern Sotho",
    "su": "Sundanese", "szl": "Silesian", "taq": "Tamasheq", "tg": "Tajik", "ti": "Tigrinya", "tk": "Turkmen",
    "tn": "Tswana", "tpi": "Tok Pisin", "ts": "Tsonga", "tt": "Tatar", "tum": "Tumbuka", "tw": "Twi",
    "tzm": "Central Atlas Tamazight", "ug": "Uyghur", "umb": "Umbundu", "vec": "Venetian", "war": "Waray",
    "wo": "Wolof", "xh": "Xhosa", "yi": "Yiddish", "yo": "Yoruba", "yue": "Cantonese", "zu": "Zulu",
}  # fmt: skip
_SCRIPTS = {
    "arab": "Arabic", "beng": "Bengali", "cyrl": "Cyrillic", "deva": "Devanagari", "hans": "simplified",
    "hant": "traditional", "latn": "Latin", "tfng": "Tifinagh",
}  # fmt: skip
# ISO 639-3, and other codes that are in use, as tags have them. The last lines: members of a group (macrolanguage) that
# models write its standard language by, and codes that were replaced.
_TAGS = (
    "aar:aa abk:ab afr:af aka:ak amh:am ara:ar arg:an asm:as ava:av aym:ay aze:az bak:ba bam:bm bel:be ben:bn bis:bi "
    "bod:bo bos:bs bre:br bul:bg cat:ca ces:cs cha:ch che:ce chv:cv cor:kw cos:co cre:cr cym:cy dan:da deu:de div:dv "
    "dzo:dz ell:el eng:en epo:eo est:et eus:eu ewe:ee fao:fo fas:fa fij:fj fin:fi fra:fr fry:fy ful:ff gla:gd gle:ga "
    "glg:gl glv:gv grn:gn guj:gu hat:ht hau:ha hbs:sh heb:he her:hz hin:hi hmo:ho hrv:hr hun:hu hye:hy ibo:ig ido:io "
    "iku:iu ile:ie ina:ia ind:id isl:is ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks kat:ka kau:kr kaz:kk khm:km kik:ki "
    "kin:rw kir:ky kom:kv kon:kg kor:ko kua:kj kur:ku lao:lo lat:la lav:lv lim:li lin:ln lit:lt ltz:lb lub:lu lug:lg "
    "mah:mh mal:ml mar:mr mkd:mk mlg:mg mlt:mt mon:mn mri:mi msa:ms mya:my nau:na nav:nv nbl:nr nde:nd ndo:ng nep:ne "
    "nld:nl nno:nn nob:nb nor:no nya:ny oci:oc oji:oj ori:or orm:om oss:os pan:pa pol:pl por:pt pus:ps que:qu roh:rm "
    "ron:ro run:rn rus:ru sag:sg san:sa sin:si slk:sk slv:sl sme:se smo:sm sna:sn snd:sd som:so sot:st spa:es sqi:sq "
    "srd:sc srp:sr ssw:ss sun:su swa:sw swe:sv tah:ty tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti ton:to tsn:tn "
    "tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz ven:ve vie:vi vol:vo wln:wa wol:wo xho:xh yid:yi yor:yo "
    "zha:za zho:zh zul:zu "
    "als:sq arb:ar ayr:ay azj:az cmn:zh ekk:et fil:tl fuv:ff gaz:om khk:mn kmr:ku knc:kr lvs:lv npi:ne ory:or pbt:ps "
    "pes:fa plt:mg quy:qu swh:sw uzn:uz ydd:yi zsm:ms "
    "in:id iw:he ji:yi jw:jv mo:ro ns:nso"
)
# How Chinese is written where: clients name the place, models the script.
_WRITTEN = {"cn": "hans", "sg": "hans", "my": "hans", "tw": "hant", "hk": "hant", "mo": "hant"}


def language_name(code: str) -> str:
    """Return the name of a language, with the script where the code says it; or the code where we know none."""
    base, rest = _parts(code)
    name = LANGUAGE_NAMES.get(base) or _MORE_NAMES.get(base)
    if name is None:
        return code
    script = _SCRIPTS.get(rest.partition("-")[0])
    return f"{name} ({script})" if script else name


def base_language(language: str | None) -> str:
    """Return the first part of a code, in small letters: `zh` for `zh-Hant`, `pt` for `pt_BR`, "" for None."""
    return (language or "").replace("_", "-").partition("-")[0].lower()


def tags_of(codes: Iterable[str]) -> dict[str, str]:
    """Return the codes of a model by distinct tags: `eng_Latn` by `en`, `fra` by `fr`.

    A script stands in the tag only where the model has the language in several: `zh-Hans` and `zh-Hant`.
    """
    parts = {code: _parts(code) for code in codes}
    count, found = Counter(base for base, _ in parts.values()), dict[str, str]()
    for code, (base, rest) in parts.items():
        if count[base] == 1 and rest[:4].isalpha() and len(rest) == 4:
            rest = ""
        tag = "-".join([base, *(one.title() if len(one) == 4 else one.upper() for one in rest.split("-") if one)])
        is_free = tag not in found and (tag == code or tag not in parts)
        found[tag if is_free else code] = code
    return found


def same_language(asked: str, has: str) -> bool:
    """Return whether a code asks for a language: `zh-CN`, `ZH` and `zho` ask for `zh`; `pt-PT` does not for `pt-BR`."""
    (one, more), (other, rest) = _parts(asked), _parts(has)
    both = {one, other}
    return (one == other or both == {"nb", "no"}) and (more == rest or not (more and rest))


def best_match(code: str, known: Mapping[str, str | None] | Iterable[str]) -> str | None:
    """Return which of some tags is asked for by a code, or None.

    Args:
        code: a tag, or what a model calls the language.
        known: tags, perhaps with what the model calls each.
    """
    tags = known if isinstance(known, Mapping) else dict.fromkeys(known)
    if code in tags:  # `tags_of` gives no language the name of another one
        return code
    plain = code.lower().replace("_", "-")
    alike = [tag for tag, own in tags.items() if own == code or tag.lower() == plain]
    return next(iter(alike or (tag for tag in tags if same_language(code, tag))), None)


@cache
def _tags() -> dict[str, str]:
    return {code: tag for code, _, tag in (pair.partition(":") for pair in _TAGS.split())}


@lru_cache(4096)  # clients make codes up
def _parts(code: str) -> tuple[str, str]:
    """The language of a code and what is said of it besides, in small letters: `en` and `latn` for `eng_Latn`."""
    base, _, rest = code.strip("_").lower().replace("_", "-").partition("-")
    base = _tags().get(base, base)
    return base, _WRITTEN.get(rest, rest) if base == "zh" else rest
