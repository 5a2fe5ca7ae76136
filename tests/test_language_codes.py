"""Codes of languages: what models call theirs, what clients ask for, what they are called in English."""

from __future__ import annotations

import pytest

from dragoman.languages import base_language, best_match, language_name, same_language, tags_of

M2M100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht "
    "hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
# Of NLLB those that are written in several scripts, or whose code is that of a member of a group.
NLLB = (
    "ace_Arab ace_Latn arb_Arab azb_Arab azj_Latn eng_Latn est_Latn fra_Latn khk_Cyrl kmr_Latn ckb_Arab lvs_Latn "
    "nob_Latn nno_Latn npi_Deva ory_Orya pes_Arab prs_Arab swh_Latn yue_Hant ydd_Hebr zho_Hans zho_Hant zsm_Latn"
)
OPUS = "fra fr pt_br pt cmn cmn_Hans zho yue_Hans mul zlw"


@pytest.mark.parametrize("codes", [M2M100, NLLB, OPUS])
def test_each_code_has_a_tag_that_asks_for_it(codes: str) -> None:
    tags = tags_of(codes.split())
    assert list(tags.values()) == codes.split()
    for tag, own in tags.items():
        assert best_match(tag, tags) == best_match(tag.upper(), tags) == best_match(own, tags) == tag


def test_tags_are_those_that_people_write() -> None:
    assert list(tags_of(M2M100.split())) == [code if code != "ns" else "nso" for code in M2M100.split()]
    assert list(tags_of(NLLB.split()))[:8] == ["ace-Arab", "ace-Latn", "ar", "azb", "az", "en", "et", "fr"]
    assert list(tags_of(NLLB.split()))[-4:] == ["yi", "zh-Hans", "zh-Hant", "ms"]
    assert list(tags_of(OPUS.split()))[:4] == ["fra", "fr", "pt-BR", "pt"]
    assert all(language_name(tag) != tag for tag in (*tags_of(M2M100.split()), *tags_of(NLLB.split())))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("zh", "zh-Hans"), ("zh-CN", "zh-Hans"), ("ZH_TW", "zh-Hant"), ("zho", "zh-Hans"), ("zh-HK", "zh-Hant"),
        ("en-GB", "en"), ("eng", "en"), ("no", "nb"), ("ara", "ar"), ("sw", "sw"), ("ace", "ace-Arab"), ("xx", None),
        ("", None), ("e", None),
    ],
)  # fmt: skip
def test_clients_ask_in_many_ways(asked: str, found: str | None) -> None:
    assert best_match(asked, tags_of(NLLB.split())) == found
    assert best_match(asked, list(tags_of(NLLB.split()))) == found


def test_regions_that_differ_are_not_the_same() -> None:
    assert same_language("pt-PT", "pt")
    assert not same_language("pt-PT", "pt-BR")
    assert not same_language("zh-CN", "zh-Hant")
    assert (base_language("zh-Hant"), base_language("pt_BR"), base_language(None)) == ("zh", "pt", "")
    assert language_name("zh-Hant") == "Chinese (traditional)"
    assert language_name("qqq") == "qqq"
