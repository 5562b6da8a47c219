"""The check for Jinja that dbt 2 renders differently, which `make lint` runs."""

from __future__ import annotations

import pytest

from support.dbt_2 import RULES, find_in

FOUND = {
    "loop": [
        "{% for x in xs if not at.done %}{% set at.done = true %}{% endfor %}",
        "{% for x in xs if x not in seen %}{% do seen.append(x) %}{% endfor %}",
    ],
    "finditer": ["{% for m in modules.re.finditer('a', text) %}{% endfor %}"],
    "fullmatch": [
        "{{ modules.re.fullmatch('(a)', text).group(1) }}",
        "{% set n, found = 1, modules.re.fullmatch('(a)', text) %}{{ found.groups() }}",
    ],
    "item of a match": [
        "{{ modules.re.search('(a)', text)[1] }}",
        "{% set found = modules.re.match('(a)', text) %}{{ found[1] }}",
    ],
    "alternatives": [
        "{{ modules.re.match('a|b', text) }}",
        "{{ modules.re.fullmatch('(a|ab)', text) }}",
        "{{ modules.re.fullmatch('a+?', text) }}",
        "{{ modules.re.fullmatch(pattern, text) }}",
    ],
    "position": ["{{ found.start() }}", "{{ found.end(1) }}", "{{ found.span() }}"],
    "braces": ["{{ '{:,}'.format(1) }}", "{{ ('{} of ' ~ '{:.1f}').format(1, 2) }}"],
    "hexadecimal": ["{{ '%X' | format(1) }}", "{{ 'a %08x' | format(1) }}"],
    "timedelta": [
        "{{ modules.datetime.timedelta(hours=1) }}",
        "{% set age = modules.datetime.datetime.now() - begun %}",
    ],
    "sort_keys": ["{{ tojson(x, sort_keys=true) }}"],
    "fixed list": [
        "{% set xs = modules.re.split(',', text) %}{% do xs.append(1) %}",
        "{% do modules.re.findall('a', text).extend([1]) %}",
        "{% set xs, n = [0] * n, 1 %}{% do xs.append(1) %}",
    ],
    "hook": ["{% for hook in hooks %}{{ dict(hook, transaction=true) }}{% endfor %}"],
    "replace": ["{{ relation.replace(limit=none) }}"],
    "information": ["{{ relation.information or '' }}"],
    "sample": [
        "{% set sampled = invocation_args_dict.get('sample') is not none %}",
        "{{ invocation_args_dict.get('sample') or other }}",
    ],
}
NOT_FOUND = {
    "loop": [
        "{% for x in xs %}{% if not at.done %}{% set at.done = true %}{% endif %}{% endfor %}",
        "{% for x in xs if x not in names %}{% do seen.append(x) %}{% endfor %}",
    ],
    "finditer": ["{{ modules.re.findall('a', text) }}"],
    "fullmatch": ["{{ modules.re.fullmatch('a', text) is none }}{{ found.group(1) }}"],
    "item of a match": ["{% set found = modules.re.findall('(a)', text) %}{{ found[1] }}"],
    "alternatives": [
        "{{ modules.re.match('[a|b]+', text) }}",
        "{{ modules.re.fullmatch('a\\\\|b', text) }}",
        "{{ modules.re.search('^(?:a|ab)$', text) }}",
    ],
    "position": ["{{ text.startswith('a') }}"],
    "braces": ["{{ '{} of {}'.format(1, 2) }}"],
    "hexadecimal": ["{{ '%.1f %%' | format(1) }}"],
    "timedelta": [
        "{{ (modules.datetime.datetime.now() - begun).total_seconds() }}",
        "{{ (time.fromisoformat(a) - time.fromisoformat(b)).total_seconds() - 3600 }}",
    ],
    "sort_keys": ["{{ tojson(x) }}"],
    "fixed list": [
        "{% set xs = [] %}{% do xs.extend(modules.re.findall('a', text)) %}",
        "{% set xs = text.split(',') %}{% do xs.append(1) %}",
    ],
    "hook": ["{{ dict(plan, hooks=1) }}"],
    "replace": ["{{ text.replace('a', 'b') }}", "{{ relation.incorporate(limit=none) }}"],
    "information": ["{{ relation.incorporate(information='a') }}"],
    "sample": [
        "{% set x = invocation_args_dict.get('sample') is not none or dbt_version == '2' %}",
        "{{ invocation_args_dict.get('which') }}",
    ],
}


def test_each_rule_has_examples() -> None:
    assert RULES.keys() == FOUND.keys() == NOT_FOUND.keys()


@pytest.mark.parametrize(("name", "text"), [(n, text) for n in FOUND for text in FOUND[n]])
def test_what_dbt_2_renders_differently_is_found(name: str, text: str) -> None:
    found = find_in("{% macro a() %}\n" + text + "{% endmacro %}", "a.sql")

    assert {(finding.file, finding.line, finding.rule) for finding in found} == {("a.sql", 2, name)}


@pytest.mark.parametrize("text", [text for texts in NOT_FOUND.values() for text in texts])
def test_what_dbt_2_renders_alike_is_not_found(text: str) -> None:
    assert find_in("{% macro a() %}" + text + "{% endmacro %}") == []
