#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Renders thousands of templates here and with Python's Jinja2, and compares.

compare-python.py JINJA-RENDER [--all] [--only-here]

A test takes every seventh of the products of values and operations, and all other templates. Skips (77) where Jinja2 is not installed. Where Jinja2 raises an error, there must be one here as well.
--only-here compares nothing, for a program built with a sanitizer: what that finds does not depend on what Python says, which takes nearly all of
the time.
"""
import itertools
import random
import re
import sys

import rendering
from rendering import Case

VALUES = ['1', '0', '-7', '3.5', '-0.0', '2.0', '1e16', '1e-5', 'true', 'false', 'none', "''", "'abc'", "'Hello World'",
          "' x y '", "'äöü ß ǆ'", "'12'", "'-3.7'", "'0x1F'", "'a,b,,c'", "'line\\nnext\\r\\nlast\\n'", "'<b>&\"'",
          '[]', '[1, 2, 3]', '[3, 1, 2]', "['b', 'A', 'c']", '[[1, 2], [3, 4]]', "(1, 'x')", '()', '(5,)', '{}',
          "{'a': 1, 'b': [1, none]}", "{'B': 2, 'a': 1}", "[{'k': 'x', 'n': 2}, {'k': 'Y', 'n': 1}, {'k': 'x', 'n': 3}]",
          'missing', 'data', 'data.list', 'data.text', 'data.none', 'data.missing', "'%s|%5d'", 'range(4)']
DATA = {'data': {'list': [1, 'two', None, 3.25, {'x': True}], 'text': 'Grüße, <|im_end|> "q" \'s\' \\ \t\u200b\x7f',
                 'none': None, 'big': 2**70}}

BINARY = ['+', '-', '*', '/', '//', '%', '**', '~', '==', '!=', '<', '<=', '>', '>=', 'in', 'not in', 'and', 'or']

FILTERS = ['abs', 'capitalize', 'center(20)', 'count', "default('D')", "default('D', true)", "d", 'dictsort',
           "dictsort(by='value')", 'dictsort(true)', 'dictsort(reverse=true)', 'e', 'first', 'float', 'float(2.5)',
           "format(1, 2)", "groupby('k')", 'indent', 'indent(2, true)', 'indent(2, blank=true)', "indent('> ')", 'int',
           'int(9)', 'int(base=16)', 'items | list', 'join', "join(', ')", "join('-', attribute='k')", 'last', 'length',
           'list', 'lower', "map('upper') | list", "map(attribute='k') | list", "map(attribute='n', default=0) | list",
           "map('default', 7) | list", 'max', 'min', "max(attribute='n')", "reject('none') | list",
           "rejectattr('k', 'eq', 'x') | list", "replace('a', 'ZZ')", "replace('l', '', 1)", 'reverse | list', 'round',
           'round(1)', "round(1, 'floor')", "round(0, 'ceil')", 'round(-1)', 'select | list', "select('string') | list",
           "select('gt', 1) | list", "selectattr('k') | list", "selectattr('n', '>', 1) | list", 'slice(2) | list',
           'slice(2, 0) | list', 'batch(2) | list', "batch(2, 'z') | list", 'sort', 'sort(true)',
           'sort(case_sensitive=true)', "sort(attribute='n')", "sort(attribute='k,n')", "sort(reverse=true, attribute='k')",
           'string', 'striptags', 'sum', "sum(attribute='n')", "sum(start=5)", 'title', 'tojson', 'tojson(indent=2)',
           'tojson(ensure_ascii=true)', "tojson(separators=(',', ':'))", 'tojson(sort_keys=true)', 'trim', "trim('x ')",
           'truncate(5)', "truncate(7, true, '..', 0)", 'unique | list', 'unique(true) | list',
           "unique(attribute='k') | list", 'upper', 'urlencode', 'wordcount', "attr('upper')", 'nonsense', 'first | upper',
           'abs(1)', 'join(1, 2, 3)', 'trim(nothing=1)']

TESTS = ['boolean', 'callable', 'defined', 'divisibleby 2', 'divisibleby(3)', "eq('abc')", 'equalto 1', 'even', 'false',
         'float', 'ge 2', 'gt(0)', 'in [1, 2]', "in 'abc'", 'integer', 'iterable', 'le 1', 'lower', 'lt 5', 'mapping',
         'ne 1', 'none', 'number', 'odd', 'sameas none', 'sameas 1', 'sequence', 'string', 'true', 'undefined', 'upper',
         'nonsense', 'escaped', 'filter', 'test', '> 0']

METHODS = ['strip()', 'lstrip()', 'rstrip()', "strip('abc ')", 'split()', "split(',')", "split(',', 1)", 'split(none, 1)',
           'rsplit()', "rsplit(',', 1)", 'rsplit(none, 1)', 'splitlines()', 'splitlines(true)', "partition(',')",
           "rpartition(',')", "startswith('a')", "startswith(('x', 'He'))", "endswith('c')", "endswith('c', 0, 2)",
           'upper()', 'lower()', 'title()', 'capitalize()', 'swapcase()', "replace('a', 'b')", "replace('', '-')",
           "replace('', '-', 3)", "join(['1', '2'])", "join([1])", "find('l')", "rfind('l')", "find('l', 3)", "find('zz')",
           "index('l')", "index('zz')", "count('l')", "count('')", 'isdigit()', 'isalpha()', 'isalnum()', 'isspace()',
           'islower()', 'isupper()', 'isnumeric()', 'isdecimal()', 'isascii()', "removeprefix('He')",
           "removesuffix('c')", 'zfill(6)', 'center(11)', "center(12, '*')", "ljust(8, '.')", 'rjust(8)', 'format(1)',
           'items() | list', 'keys() | list', 'values() | list', "get('a')", "get('z', 5)", "get('z')", 'copy()',
           'append(1)', 'index(2)', 'count(1)', 'nonsense', 'nonsense()', 'upper', 'strip(1)', 'strip(1, 2)']

SUBSCRIPTS = ['[0]', '[-1]', '[7]', '[1:]', '[:-1]', '[::-1]', '[::2]', '[-3:-1]', '[5:1]', '[5:1:-2]', "['a']",
              "['k']", '[none]', '[1.5]', '[:none]', '[0:2:1]', '.a', '.0', '[[1]]', '[-100:100]', '[100:-100:-1]']

# Templates that exercise more than one expression.
TEMPLATES = r'''
{% if x %}a{% elif y %}b{% else %}c{% endif %}
{% for i in [1,2,3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i // 2) }};{% endfor %}
{% for i in [] %}x{% else %}empty{% endfor %}
{% for i in [1,2,3,4] if i is even %}{{ i }}{{ loop.length }}{% else %}none{% endfor %}
{% for i in [1,3] if i is even %}{{ i }}{% else %}none{% endfor %}
{% for a, b in [[1, 2], [3, 4]] %}{{ a }}-{{ b }} {% endfor %}
{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for k, v in {'x': 1, 'y': 2}.items() %}{{ k }}={{ v }}{{ ", " if not loop.last }}{% endfor %}
{% for c in 'häh' %}{{ c }}.{% endfor %}
{% for i in 5 %}{% endfor %}
{% for i in none %}{% endfor %}
{% for i in [1,2,3,4,5] %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in [1,2] %}{% for j in [1,2] %}{% if j == 2 %}{% break %}{% endif %}{{ i }}{{ j }}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}, {'v': 3, 'c': []}]}] recursive %}{{ n.v }}{{ loop.depth }}({{ loop(n.c) }}){% endfor %}
{% for i in [1] %}{{ loop([2]) }}{% endfor %}
{% for i in [1,2,3] %}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set x = 0 %}{% for i in [1,2,3] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(x=0, y='a') %}{% for i in [1,2,3] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns }}
{% set ns = namespace({'a': 5}, b=6) %}{{ ns.a }}{{ ns['b'] }}{{ ns.c }}{{ ns.c is defined }}
{% set d = {} %}{% set d.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a, b = 1, 2, 3 %}
{% set ns = namespace() %}{% set ns.x, c = 3, 4 %}{{ ns.x }}{{ c }}
{% set x %}  block {{ 1 + 1 }}  {% endset %}[{{ x }}]
{% set x | upper | trim %}  block {{ 1 + 1 }}  {% endset %}[{{ x }}]
{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}
{% filter upper | replace('A', 'b') %}abc{{ 'xaz' }}{% endfilter %}
{% macro m(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 2) }}|{{ m(a=3, c=4) }}|{{ m() }}|{{ m(b=1, a=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k='v') }}{{ m.name }}{{ m.arguments }}
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}inside{% endcall %}
{% macro m() %}[{{ caller(1, b=2) }}]{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}[{{ caller is defined }}]{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro f() %}{{ x }}{% endmacro %}{% set x = 3 %}{{ f() }}{% set x = 4 %}{{ f() }}
{% macro f(l) %}{% for x in l %}{{ loop.index }}{{ x }}{% endfor %}{% endmacro %}{% for i in [1, 2] %}{{ f('ab') }}{% endfor %}
{% macro a() %}x{% endmacro %}{% macro b() %}{{ a() }}{{ a() | upper }}{% endmacro %}{{ b() ~ '!' }}{{ b() | length }}
{% macro m(x) -%}
  {%- if x is string -%}"{{ x }}"{%- else -%}{{ x }}{%- endif -%}
{%- endmacro %}{{ m('s') }},{{ m(1) }}
{% raw %}{{ not }} {% if %}{# x #}{% endraw %}{{ 1 }}
{%- raw -%}  {{ a }}  {%- endraw -%}  x
{# comment #}x{#- comment -#} y {# multi
line #}
z
a
  {% if true %}
  b
  {% endif %}
c
a
  {%+ if true %}
  b
  {%+ endif +%}
c
a {{- 1 -}} b {%- if true -%} c {%- endif -%} d
  {{ 1 }}
   {# c #}
x
{% generation %}{{ 1 }}{% endgeneration %}
{{ 'a' 'b' "c" }}{{ "it's" }}{{ 'say "x"' }}{{ 'a\n\t\\\'\x41\u00e4\U0001F600\101\q' }}
{{ 1_000 + 0x1f + 0b11 + 0o17 }}{{ 1.5e3 }}{{ 1e2 }}{{ .5 }}
{{ [1, 2,] }}{{ (1,) }}{{ () }}{{ {'a': 1,} }}{{ [] }}{{ {1: 'a', none: 2, 1.5: 3, true: 4} }}
{{ {'a': {'b': [1, {'c': 'd'}]}}.a.b[1].c }}
{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 1 == 1.0 }}{{ '1' == 1 }}{{ [1] == [1.0] }}{{ {'a': 1} == {'a': 1.0} }}{{ none == false }}
{{ not 1 == 2 }}{{ not true and false }}{{ 1 or 2 and 0 }}{{ (1 or 2) and 0 }}{{ not not 'a' }}
{{ -2 ** 2 }}{{ 2 ** 3 ** 2 }}{{ -1 | abs }}{{ 1 + 2 * 3 - 4 / 2 }}{{ 7 // 2 * 2 }}{{ 'a' ~ 1 + 2 ~ 'b' }}
{{ 1 if true else 2 if true else 3 }}{{ 1 if false }}{{ (1 if false) is defined }}
{{ 'x' is string and 1 is number or false }}{{ 1 is not string }}{{ 'a' in 'abc' and 'z' not in 'abc' }}
{{ [1, 2, 3] | map('string') | join('+') ~ '=' ~ [1, 2, 3] | sum }}
{{ 'a,b' | upper | list }}{{ 'abc'.upper().lower() | first }}
{{ 'hello %s, %d items' % ('x', 3) }}{{ '%5.2f|%-5s|%05d|%x|%%|%r|%+d' % (3.14159, 'ab', 42, 255, 'q', 7) }}
{{ '%(a)s-%(b)d' % {'a': 'x', 'b': 3} }}{{ '%s' % [1, 2] }}{{ '%s' % 'x' }}{{ '%s %s' % 'x' }}
{{ '%s' % () }}
{{ 'no' % (1,) }}
{{ '{} {}'.format(1, 'a') }}{{ '{0}{1}{0}'.format('x', 'y') }}{{ '{a}{b.c}'.format(a=1, b={'c': 2}) }}
{{ '{{}} {:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{!r}'.format('a', 'b', 'c', 42, 3.14159, 1234567, 'q') }}
{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ range(3) | list }}{{ range(5, 0, -2) | list }}{{ range(2, 4) | join }}
{{ range(0) | list }}{{ range(1, 2, 3, 4) }}
{{ range(3, step=0) }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('|') %}{{ j() }}1{{ j() }}2
{{ strftime_now('%Y-%m-%d %H:%M:%S %B %b %A %a %d %-d %j %p %I %y %e %%') }}
{{ raise_exception('no: ' ~ 1) }}
{{ x.y }}
{{ x.y is defined }}
{{ x['y'] }}
{{ data.nope.nope }}
{{ data['list'][4].x }}{{ data.list[1][0] }}{{ data.items is callable }}{{ data['items'] is defined }}
{{ x() }}
{{ 'a'() }}
{{ x + 1 }}
{{ 1 + x }}
{{ -x }}
{{ x | int }}
{{ x | tojson }}
{{ x | upper }}{{ x | length }}{{ x ~ 'a' }}{{ x | list }}{{ x | join }}{{ x == y }}{{ x != 1 }}{{ x in [1] }}{{ 1 in x }}
{{ x < 1 }}
{{ 'a' < 1 }}
{{ [1] < ['a'] }}
{{ none < none }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 % 0 }}
{{ 'a' * 3 }}{{ 3 * 'a' }}{{ [1] * 2 }}{{ 'a' * -1 }}{{ [0] * 0 }}
{{ data.big }}{{ data.big | tojson }}{{ [data.big] }}{{ data.big == data.big }}{{ data.big is integer }}{{ data.big | string | length }}
{{ data }}{{ data | tojson }}{{ data | tojson(indent=4) }}{{ data.list | tojson(indent=0) }}{{ {} | tojson(indent=2) }}{{ [] | tojson(indent=2) }}
{{ [1, 2, 3] | last }}{{ 'abc' | last }}{{ [] | last }}{{ {'a': 1} | first }}{{ [[1, 2], [3]] | map('length') | list }}
{{ [1, 2, 3, 4] | select('odd') | map('string') | join(',') }}{{ ['a', 'B'] | map('lower') | sort | join }}
{% for g in [{'k': 1, 'v': 'a'}, {'k': 2, 'v': 'b'}, {'k': 1, 'v': 'c'}] | groupby('k') %}{{ g.grouper }}:{{ g.list | map(attribute='v') | join }};{% endfor %}
{% for k, l in [{'k': 'x', 'v': 'a'}, {'v': 'b'}] | groupby('k', default='z') %}{{ k }}{{ l | length }}{% endfor %}
{% if 'a' in data.list or 'two' in data.list %}y{% endif %}{% if data.list is iterable and data.list is not mapping %}z{% endif %}
{% set l = [1] %}{{ l + [2] }}{% set l = l + ['x'] %}{{ l }}{{ l[1:] }}{{ l | tojson }}
{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{% set _ = l.extend([3, 4]) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}{% set _ = l.insert(0, 'z') %}{{ l }}{{ l.index(3) }}
{% set d = {'a': 1} %}{% set _ = d.update({'b': 2}) %}{% set _ = d.update(c=3) %}{{ d }}{{ d.pop('a') }}{{ d }}{{ d.setdefault('q', 7) }}{{ d.get('q') }}
{{ 'abc'.nope }}{{ 5.nope }}
{{ none.x }}{{ none['x'] }}{{ (1).unreal }}
{{ [1, 2] is sequence }}{{ 'x' | default('y') }}{{ none | default('y') }}{{ 'x'.upper is callable }}
{{ [3, 1, 2] | sort | reverse | list }}{{ 'abc' | reverse }}{{ ('b', 'a') | sort }}
{{ 12345678901 * 1000 }}{{ 2 ** 62 }}{{ 10 // 3 }}{{ -10 // 3 }}{{ -10 % 3 }}{{ 10 % -3 }}{{ 5.5 // 2 }}{{ -5.5 % 2 }}
{{ 0.1 + 0.2 }}{{ 1e300 * 1e10 }}{{ 100000000000000000.0 }}{{ 123456789.123 }}{{ 1.0e-10 }}{{ 2.5 | round }}{{ 3.5 | round }}{{ 2.675 | round(2) }}
{{ "a\
b" }}
{{ 'é' | length }}{{ 'né'[1] }}{{ 'éa'[::-1] }}{{ '日本語'[1:] }}{{ '日本語'.find('語') }}
{{ ['é', '\u200b', "a'b", 'a"b\'c', 'tab\t', '\x00\x7f\xad'] }}
{{ x is defined and x.y }}{{ x and x.y }}{{ x if x is defined else 'no' }}
{%- for m in [1, 2] -%}
    {{ m }}
{%- endfor %}

{% if true %}
    x
{%- endif %}
{{ "a" }}
{% if if in in %}a{% endif %}{% set if = "a" %}{% set in = "abc" %}{% if if in in %}b{% endif %}
{% macro mul(a, b, c) %}{{ a * b * c }}{% endmacro %}{{ mul(*[1, 2, 3]) }}{{ mul(1, **{'b': 2, 'c': 3}) }}
{{ [1, 2, 3].0 }}{{ 'x'.0 }}{{ {'0': 1}.0 }}
{{ true.foo }}{{ true + true }}{{ true | int }}{{ true | string }}{{ 5 | string | int + 1 }}
{{ 'a' | upper ~ 'b' | upper }}{{ ('a' ~ 'b') | upper }}{{ 1 ~ 2 | string }}
{{ 1, 2 }}
{{ [1, [2, [3, none]]] | string }}{{ {'a': "it's"} | string }}{{ ("x",) | string }}
{{ 'x' * 3 ~ 'y' }}{{ loop is defined }}{{ caller is defined }}{{ namespace is defined }}{{ range is callable }}
'''

# Chat templates, with the constructions that those of models have.
CHATS = [
    # The last question counts: reasoning before it is dropped, tool results are put together.
    """{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|start|>' + message.role + '\n' + content + '<|end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|start|>' + message.role + '\n' }}
        {%- generation %}
        {%- if loop.index0 > ns.last and (loop.last or reasoning) %}
            {{- '<think>\n' + reasoning.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if (loop.first and content) or (not loop.first) %}{{- '\n' }}{% endif %}
            {%- set call = call.function if call.function else call %}
            {{- '<call>\n{"name": "' ~ call.name ~ '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}\n</call>' }}
        {%- endfor %}
        {%- endgeneration %}
        {{- '<|end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|start|>user' }}{% endif %}
        {{- '\n<r>\n' + content + '\n</r>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|end|>\n' }}{% endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{% endif %}
{%- endif %}""",
    # Macros that call each other, defined in any order; a schema turned into another notation.
    """{%- macro params(properties, required) -%}
    {%- set known = ['description', 'type', 'required'] -%}
    {%- set ns = namespace(found=false) -%}
    {%- for key, value in properties | dictsort -%}
        {%- if key not in known -%}
            {%- if ns.found %},{% endif -%}
            {%- set ns.found = true -%}
            {{ key }}:{
            {%- if value['description'] -%}description:<|"|>{{ value['description'] }}<|"|>,{%- endif -%}
            {%- set kind = value['type'] if value['type'] is string else value['type'][0] -%}
            {%- if kind | upper == 'OBJECT' -%}
                properties:{ {{- params(value['properties'], value['required'] | default([])) -}} }
            {%- elif value['enum'] -%}enum:{{ argument(value['enum']) }}
            {%- endif -%}
            type:{{ kind | upper }}{{ '!' if key in required }}}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}
{%- macro argument(x, keys=True) -%}
    {%- if x is string -%}{{- '<|"|>' + x + '<|"|>' -}}
    {%- elif x is boolean -%}{{- 'true' if x else 'false' -}}
    {%- elif x is mapping -%}{{- '{' -}}
        {%- for k, v in x | dictsort -%}{{ ',' if not loop.first }}{{ argument(k) if keys else k }}:{{- argument(v, keys=keys) -}}{%- endfor -%}
    {{- '}' -}}
    {%- elif x is sequence -%}[{% for i in x %}{{- argument(i, keys=keys) -}}{{- ',' if not loop.last -}}{% endfor %}]
    {%- else -%}{{- x -}}{%- endif -%}
{%- endmacro -%}
{% for tool in tools %}{{ tool.function.name }}{ {{- params(tool.function.parameters.properties, tool.function.parameters.required) | trim -}} }
{% endfor %}
{%- for m in messages %}{% for c in m.tool_calls %}{{ argument(c.function.arguments, keys=False) }}{{ argument(c) }}{% endfor %}{% endfor %}""",
    # Alternation is checked, the system message joins the first question, tools stand before the last one.
    """{%- if messages[0]["role"] == "system" %}{% set system = messages[0]["content"] %}{% set rest = messages[1:] %}
{%- else %}{% set rest = messages %}{% endif %}
{%- set questions = rest | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for m in rest if m.role in ['user', 'assistant'] and m.tool_calls is not defined %}
    {%- if (m["role"] == "user") != (ns.index % 2 == 0) %}{{ raise_exception("roles must alternate, at " ~ ns.index) }}{% endif %}
    {%- set ns.index = ns.index + 1 %}
{%- endfor %}
{{- bos_token }}
{%- for m in rest %}
    {%- if m.role == "user" %}
        {%- if tools is not none and m == questions[-1] %}[TOOLS] {{ tools | map(attribute='function') | list | tojson }}[/TOOLS]{% endif %}
        {%- if loop.first and system is defined %}{{ "[INST] " + system + "\n\n" + m.content + "[/INST]" }}
        {%- else %}{{ "[INST] " + m.content + "[/INST]" }}{% endif %}
    {%- elif m.tool_calls is defined and m.tool_calls is not none %}
        {%- for c in m.tool_calls %}{% set out = c.function | tojson %}{{ out[:-1] }}{{ ', "id": "' + c.id + '"}' }}{{ ", " if not loop.last else "]" + eos_token }}{% endfor %}
    {%- elif m.role == "assistant" %}{{ " " + m.content | trim + eos_token }}
    {%- else %}{{ '[RESULT]' ~ (m.content | string | length) ~ m.content[:9] | upper ~ '[/RESULT]' }}{% endif %}
{%- endfor %}
{{ "Today is " + strftime_now("%d %B %Y") + "." }}""",
]
CHAT = {
    'messages': [
        {'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'What is 1 < 2?\n'},
        {'role': 'assistant', 'content': '<think>\nhm, "quotes"\n</think>\n\nTrue. '},
        {'role': 'user', 'content': 'Weather in Köln?'},
        {'role': 'assistant', 'content': '', 'reasoning_content': 'call it', 'tool_calls': [
            {'id': 'abc123def', 'type': 'function', 'function': {
                'name': 'weather', 'arguments': {'place': 'Köln', 'days': 2, 'x': [1.5, True, None, {'y': 'z'}]}}},
            {'id': 'abc123deg', 'type': 'function', 'function': {'name': 'f', 'arguments': {}}}]},
        {'role': 'tool', 'content': '{"t": 21}', 'tool_call_id': 'abc123def'},
        {'role': 'tool', 'content': 'none', 'tool_call_id': 'abc123deg'}],
    'tools': [{'type': 'function', 'function': {
        'name': 'weather', 'description': 'Tells it', 'parameters': {
            'type': 'object', 'required': ['place'], 'properties': {
                'place': {'type': 'string', 'description': 'Where', 'enum': ['Köln', 'Bonn']},
                'days': {'type': ['integer', 'null']},
                'more': {'type': 'object', 'properties': {'deep': {'type': 'number'}}}}}}}],
}

BROKEN = ['{{', '{{ 1', '{{ 1 %}', '{% if %}{% endif %}', '{% if 1 %}', '{% endif %}', '{% for x %}{% endfor %}', '{% for in [] %}',
          '{{ 1 + }}', '{{ (1 }}', '{{ [1 }}', '{{ {1} }}', '{{ 1) }}', '{{ "a }}', "{{ 'a' 1 }}", '{{ a b }}', '{{ | upper }}',
          '{{ 1 | }}', '{{ a. }}', '{{ a[ }}', '{{ a[] }}', '{% set %}', '{% set 1 = 2 %}', '{% set x = %}', '{% unknown %}',
          '{# x', '{% raw %}x', '{% macro %}{% endmacro %}', '{% macro m %}{% endmacro %}', '{% macro m(a=1, b) %}{% endmacro %}',
          '{% call x %}{% endcall %}', '{{ f(a=1, 2) }}', '{{ a is }}', '{{ a is not }}', '{% break %}', '{{ 1 ? 2 }}', '{{ $ }}',
          '{% if 1 %}{% else %}{% else %}{% endif %}', '{% endfor %}', '{% include "x" %}', '{% extends "x" %}', '{{ }}', '{% %}',
          '{{ 1 if }}', '{{ not }}', '{{ a = 1 }}', '{% for x in y %}{% endif %}', '{{ {"a": } }}', '{{ -}}', '{{ 1 -}', '{{ ~ 1 }}']

# What is meant to differ, and why.
LISTS = ('map(', 'select', 'reject', 'unique', 'items', 'slice', 'batch', 'groupby', 'reverse', 'range', 'keys', 'values')


def products():
    for a, op, b in itertools.product(VALUES, BINARY, VALUES):
        yield f'{{{{ {a} {op} {b} }}}}'
    for v, f in itertools.product(VALUES, FILTERS):
        yield f'{{{{ {v} | {f} }}}}'
    for v, t in itertools.product(VALUES, TESTS):
        yield f'{{{{ {v} is {t} }}}}'
    for v, m in itertools.product(VALUES, METHODS):
        yield f'{{{{ ({v}).{m} }}}}'
    for v, s in itertools.product(VALUES, SUBSCRIPTS):
        yield f'{{{{ ({v}){s} }}}}'


def cases(step):
    yield from itertools.islice(products(), 0, None, step)
    for v in VALUES:
        yield f'{{{{ {v} }}}}|{{{{ [{v}] }}}}|{{{{ -{v} }}}}'
        yield f'{{{{ not {v} }}}}|{{{{ 1 if {v} else 2 }}}}'
        yield f'{{% for x in {v} %}}{{{{ x }}}}{{{{ loop.index }}}},{{% else %}}e{{% endfor %}}'
    yield from blocks()
    yield from white_space()


def blocks():
    """Templates of the list, which begin at the margin with a tag or expression and are each a line or several."""
    one = []
    for line in TEMPLATES.strip('\n').split('\n'):
        yield line
        one.append(line)
    yield '\n'.join(one[:20])
    # Windows of several lines, for tags that span lines.
    for i in range(len(one)):
        yield '\n'.join(one[i:i + 2])
        yield '\n'.join(one[i:i + 5])
        yield '\r\n'.join(one[i:i + 3]) + '\n'


def white_space():
    """Tags with all signs among all kinds of blanks."""
    rng = random.Random(1)
    blanks = ['', ' ', '\n', '  \n', '\n  ', ' \n \n ', 'x', 'x\n', '\nx', ' x ', '\t']
    tags = ['{%{0} if 1 {1}%}a{%{2} endif {3}%}', '{{{0} 1 {1}}}', '{#{0} c {1}#}', '{%{0} raw {1}%} r {%{2} endraw {3}%}',
            '{%{0} set x = 1 {1}%}', '{%{0} for i in [1, 2] {1}%} {{{2} i {3}}} {% endfor %}']
    for _ in range(1500):
        text = ''
        for _ in range(rng.randint(1, 4)):
            tag = rng.choice(tags)
            for k in range(4):
                tag = tag.replace('{%d}' % k, rng.choice(['', '', '-', '+'] if tag.startswith(('{%', '{#')) else ['', '-']))
            text += rng.choice(blanks) + tag + rng.choice(blanks)
        yield text


def expressions(n):
    """Random expressions."""
    rng = random.Random(2)

    def make(depth):
        kind = rng.randrange(9) if depth else 0
        if kind <= 1:
            return rng.choice(VALUES)
        a = make(depth - 1)
        if kind <= 3:
            return f'{a} {rng.choice(BINARY)} {make(depth - 1)}'
        if kind == 4:
            return f'{a} | {rng.choice(FILTERS)}'
        if kind == 5:
            return f'({a}){rng.choice(SUBSCRIPTS)}'
        if kind == 6:
            return f'({a}).{rng.choice(METHODS)}'
        if kind == 7:
            return f'({a} if {make(depth - 1)} else {make(depth - 1)})'
        return f'{rng.choice(["not ", "-", "", "+"])}({a}) is {rng.choice(["", "not "])}{rng.choice(TESTS)}'

    for _ in range(n):
        yield '{{ ' + make(3) + ' }}'


def meant_to_differ(case, ours, want, error):
    """Why a difference is none, or None."""
    if want is None:
        if any(word in case for word in LISTS):
            return 'a list where Python has a generator or a view'
        if 'OverflowError' in error:
            return 'numbers beyond those of Python'
        if 'unhashable' in error or 'is not subscriptable' in error:
            return 'asked of a value of the wrong type, and answered with no'
        if re.search(r' is (not )?\w+ (if|not)', case):
            return '"if" and "not" are no arguments of a test'
        if "got ','" in error and re.search(r'set \w+\.\w+,', case):
            return 'attributes among several targets, which the Jinja of Debian 12 does not know yet'
        return None
    if any(word in want for word in (' object at 0x', '<generator', '<built-in', '<function', 'dict_', 'range(', '<cyc',
                                     '<bound method', '<Macro', '<jinja2', 'itertools', 'class ')):
        return 'an object is printed'
    if 'range(4)' in case:
        return 'range() is a list'
    if '**' in case and 'error' not in ours:
        return 'powers are computed by squaring'
    if re.search('64 bits|too large|exponent|out of range|truncate.. needs a string|would change', ours.get('error', '')):
        return 'a bound of this implementation'
    return None


def main():
    python = rendering.oracle()
    if not python:
        print('SKIP: python3-jinja2 is not installed')
        return 77
    everything = '--all' in sys.argv
    todo = [Case(text, DATA) for text in cases(1 if everything else 7)]
    todo += [Case(text, DATA) for text in expressions(6000 if everything else 1000)]
    todo += [Case(text, DATA, keep_space=True) for text in itertools.chain(blocks(), white_space())]
    todo += [Case(text) for text in BROKEN]
    for text, n, flag in itertools.product(CHATS, range(1, len(CHAT['messages']) + 1), (False, True)):
        chat = {**CHAT, 'messages': CHAT['messages'][:n], 'add_generation_prompt': flag, 'enable_thinking': flag}
        todo.append(Case(text, chat, {'bos_token': '<s>', 'eos_token': '</s>'}))
        todo.append(Case(text, {**chat, 'messages': chat['messages'][1:]}, {'bos_token': '<s>', 'eos_token': '</s>'}))
    n = failed = excused = 0
    results = rendering.render(sys.argv[1], todo)
    if '--only-here' in sys.argv:
        print(f'{len(results)} rendered, none compared')
        return 1 if len(results) < 9000 else 0
    for case, ours in zip(todo, results):
        want, error = python(case)
        text = ours.get('text')
        n += 1
        if text == want:
            continue
        if meant_to_differ(case.template, ours, want, error):
            excused += 1
            continue
        failed += 1
        if failed <= 200:
            print(f'{case.template!r}\n  got  {text!r} {ours.get("error", "")}\n  want {want!r} {error or ""}')
    print(f'{n - failed - excused} of {n} equal, {excused} meant to differ, {failed} wrong')
    return 1 if failed or n < 9000 else 0


if __name__ == '__main__':
    sys.exit(main())
