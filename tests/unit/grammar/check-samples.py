#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check-samples.py SAMPLE: random schemas, random replies under their masks, judged by another reader.

Python parses each reply, and the validator below, which knows nothing of automata, checks it against the
schema. TAP on standard output.
"""
import json
import random
import re
import subprocess
import sys


def resolve(root, ref):
    node = root
    for step in ref.split('/')[1:]:
        node = node[step]
    return node


def is_type(value, name):
    if name == 'integer':
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value)
    if name == 'number':
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, {'null': type(None), 'boolean': bool, 'string': str, 'array': list,
                              'object': dict}[name])


def same(a, b):
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def valid(value, schema, root):
    """The keywords' meaning, as the specification tells it."""
    if isinstance(schema, bool):
        return schema
    ok = True
    if '$ref' in schema:
        ok = ok and valid(value, resolve(root, schema['$ref']), root)
    if 'type' in schema:
        types = schema['type'] if isinstance(schema['type'], list) else [schema['type']]
        ok = ok and any(is_type(value, t) for t in types)
    if 'enum' in schema:
        ok = ok and any(same(value, v) for v in schema['enum'])
    if 'const' in schema:
        ok = ok and same(value, schema['const'])
    ok = ok and all(valid(value, s, root) for s in schema.get('allOf', []))
    if 'anyOf' in schema:
        ok = ok and any(valid(value, s, root) for s in schema['anyOf'])
    if isinstance(value, str):
        ok = ok and schema.get('minLength', 0) <= len(value) <= schema.get('maxLength', 1 << 30)
        if 'pattern' in schema:
            ok = ok and re.search(schema['pattern'], value) is not None
    elif is_type(value, 'number'):
        ok = ok and value >= schema.get('minimum', value) and value <= schema.get('maximum', value)
        ok = ok and ('exclusiveMinimum' not in schema or value > schema['exclusiveMinimum'])
        ok = ok and ('exclusiveMaximum' not in schema or value < schema['exclusiveMaximum'])
    elif isinstance(value, list):
        ok = ok and schema.get('minItems', 0) <= len(value) <= schema.get('maxItems', 1 << 30)
        first = schema.get('prefixItems', [])
        for i, item in enumerate(value):
            ok = ok and valid(item, first[i] if i < len(first) else schema.get('items', True), root)
    elif isinstance(value, dict):
        properties = schema.get('properties', {})
        ok = ok and all(name in value for name in schema.get('required', []))
        for name, item in value.items():
            ok = ok and valid(item, properties.get(name, schema.get('additionalProperties', True)), root)
    return ok


def number(r):
    return r.choice([r.randint(-130, 130), r.randint(-5, 5), round(r.uniform(-20, 20), r.randint(1, 3))])


def random_schema(r, depth):
    kind = r.choice(['string', 'integer', 'number', 'boolean', 'null', 'enum', 'pattern', 'array', 'object',
                     'object', 'any', 'all', 'ref', 'anything'] if depth > 0 else
                    ['string', 'integer', 'number', 'boolean', 'null', 'enum', 'pattern', 'ref'])
    if kind == 'string':
        low = r.randint(0, 4)
        return r.choice([{'type': 'string'}, {'type': 'string', 'minLength': low, 'maxLength': low + r.randint(0, 9)}])
    if kind in ('integer', 'number'):
        low, high = sorted([number(r), number(r)])
        schema = {'type': kind}
        if r.random() < 0.7:
            schema['minimum'] = low
        if r.random() < 0.7 and high - low > 1.5:
            schema[r.choice(['maximum', 'exclusiveMaximum'])] = high
        return schema
    if kind == 'enum':
        return {'enum': r.sample(['red', 'green', 'r', 1, 2.5, None, True, [1, 'x'], {'a': 1}, 'é', ''], r.randint(1, 6))}
    if kind == 'pattern':
        return {'type': 'string', 'pattern': r.choice(['^[a-c]{2,4}$', r'^\d+(\.\d)?$', 'ab', '^x|y$', '^(?:é|[^a-z"])*$',
                                                        r'^\S+ \w$', '^.{3}$'])}
    if kind == 'array':
        low = r.randint(0, 2)
        schema = {'type': 'array', 'items': random_schema(r, depth - 1), 'minItems': low,
                  'maxItems': low + r.randint(0, 3)}
        if r.random() < 0.3:
            schema['prefixItems'] = [random_schema(r, depth - 1) for _ in range(r.randint(1, 2))]
        return schema
    if kind == 'object':
        names = r.sample(['a', 'b', 'c', 'name', 'ab', 'é', 'a"b', ''], r.randint(0, 4))
        schema = {'type': 'object', 'properties': {n: random_schema(r, depth - 1) for n in names},
                  'required': [n for n in names if r.random() < 0.5]}
        if r.random() < 0.5:
            schema['additionalProperties'] = r.choice([False, {'type': 'integer'}, {'type': 'boolean'}])
        return schema
    if kind == 'any':
        return {'anyOf': [random_schema(r, depth - 1) for _ in range(r.randint(1, 3))]}
    if kind == 'all':
        return {'allOf': [{'type': 'object', 'properties': {'a': random_schema(r, depth - 1)}},
                          {'properties': {'b': random_schema(r, depth - 1)}, 'required': ['b']}]}
    if kind == 'ref':
        return {'$ref': '#/$defs/d'}
    return {}


def no_duplicates(pairs):
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), names
    return dict(pairs)


def check(program, seed):
    r = random.Random(seed)
    schema = {'$defs': {'d': r.choice([{'type': 'null'}, {'type': 'integer', 'minimum': 3},
                                       {'anyOf': [{'type': 'null'}, {'type': 'array', 'items': {'$ref': '#/$defs/d'}}]}])}}
    schema.update(random_schema(r, 3))
    text = json.dumps(schema, ensure_ascii=r.random() < 0.5)
    done = subprocess.run([program, str(seed), '6'], input=text.encode(), capture_output=True, timeout=60, check=False)
    if done.returncode != 0:
        raise AssertionError(f'{text}: {done.stderr.decode()}')
    n = 0
    for line in done.stdout.decode().splitlines():
        reply = bytes.fromhex(json.loads(line)).decode()
        value = json.loads(reply, object_pairs_hook=no_duplicates)
        if not valid(value, schema, schema):
            raise AssertionError(f'{reply}\ndoes not meet\n{text}')
        n += 1
    return n


def main():
    seeds = range(1, 151)
    print(f'1..{len(seeds) // 10}')
    failed = 0
    for group in range(len(seeds) // 10):
        n, ok = 0, True
        for seed in seeds[group * 10:group * 10 + 10]:
            try:
                n += check(sys.argv[1], seed)
            except Exception as e:  # the rest is to run as well
                ok = False
                print('\n'.join('# ' + line for line in f'seed {seed}: {type(e).__name__} {e}'.splitlines()))
        ok = ok and n > 10
        failed += not ok
        print(f'{"ok" if ok else "not ok"} {group + 1} - {n} replies')
    return failed > 0


sys.exit(main())
