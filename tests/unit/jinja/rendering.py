# SPDX-License-Identifier: MIT
"""Renders templates with jinja-render (see its head) and, where it is installed, with Python's Jinja2."""
import json
import subprocess


class Case:
    """A template, its variables, and which of them are trusted text."""

    def __init__(self, template, variables=None, trusted=None, keep_space=False):
        self.template = template
        self.variables = variables or {}
        self.trusted = trusted or {}
        self.keep_space = keep_space

    def record(self):
        fields = [('k' if self.keep_space else '') + 'n', self.template,
                  str(len(self.variables) + len(self.trusted))]
        for name, value in self.variables.items():
            fields += [name, json.dumps(value, ensure_ascii=False)]
        for name, value in self.trusted.items():
            fields += ['!' + name, value]
        return ''.join(f + '\0' for f in fields).encode('utf-8', 'surrogatepass')


def render(program, cases):
    """One dict for each case: text and spans, or error and code."""
    run = subprocess.run([program], input=b''.join(c.record() for c in cases), capture_output=True, check=False)
    if run.returncode or run.stderr:
        raise RuntimeError(f'{program}: status {run.returncode}: {run.stderr.decode(errors="replace")}')
    results = [json.loads(line) for line in run.stdout.decode().split('\n') if line]
    if len(results) != len(cases):
        raise RuntimeError(f'{program}: {len(results)} results for {len(cases)} cases')
    return results


def trusted_text(result):
    """The trusted parts of a result's text."""
    parts, at, text = [], 0, result['text'].encode()
    for size, trusted in result['spans']:
        if trusted:
            parts.append(text[at:at + size].decode())
        at += size
    if at != len(text):
        raise RuntimeError('the spans are not the text')
    return parts


def oracle():
    """A function that renders a case with Jinja2 as model hubs set it up, giving (text, None) or (None, error);
    or None if Jinja2 is not installed."""
    try:
        import jinja2
        import jinja2.ext
        import jinja2.sandbox
    except ImportError:
        return None
    import datetime

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(form):
        return datetime.datetime(2026, 7, 4, 15, 9, 26).strftime(form)

    class Generation(jinja2.ext.Extension):
        tags = {'generation'}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(['name:endgeneration'], drop_needle=True)

    def environment(trim):
        env = jinja2.sandbox.SandboxedEnvironment(
            trim_blocks=trim, lstrip_blocks=trim, extensions=['jinja2.ext.loopcontrols', Generation])
        env.filters['tojson'] = tojson
        env.globals['raise_exception'] = raise_exception
        env.globals['strftime_now'] = strftime_now
        return env

    environments = {trim: environment(trim) for trim in (False, True)}

    def run(case):
        try:
            template = environments[not case.keep_space].from_string(case.template)
            variables = json.loads(json.dumps(case.variables))
            return template.render(**variables, **case.trusted), None
        except Exception as error:  # whatever the template makes Python raise
            return None, f'{type(error).__name__}: {error}'

    return run
