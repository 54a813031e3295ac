# SPDX-License-Identifier: MIT
"""Model files with other metadata, for tests: GGUF bytes in, GGUF bytes out."""
import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, UINT32 = 8, 9, 4

# Knows tools and reasoning; for models whose tokens have the marks of ChatML.
TOOLS_TEMPLATE = (
    b"{%- if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}{% endfor %}<|im_end|>\n{% endif -%}"
    b"{%- for m in messages -%}"
    b"{%- if m.role == 'tool' -%}<|im_start|>user\n<tool_response>{{ m.content }}</tool_response><|im_end|>\n"
    b"{%- elif m.tool_calls -%}<|im_start|>assistant\n"
    b"{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n"
    b'{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}'
    b"<|im_end|>\n"
    b"{%- else -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{%- endif -%}"
    b"{%- endfor -%}{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}")

# Knows tools: a reply is a call if it is an object with name and parameters, as a schema can make it.
CALLS_TEMPLATE = (
    b"{%- if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}{% endfor %}<|im_end|>\n{% endif -%}"
    b"{%- for m in messages -%}"
    b"{%- if m.role == 'tool' -%}<|im_start|>user\n<tool_response>{{ m.content }}</tool_response><|im_end|>\n"
    b"{%- elif m.tool_calls -%}<|im_start|>assistant\n{% for c in m.tool_calls %}"
    b'{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}{% endfor %}<|im_end|>\n'
    b"{%- else -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{%- endif -%}{%- endfor -%}"
    b"{%- if false %}<|python_tag|>{% endif %}"
    b"{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}")


def with_template(data, template):
    """With another chat template. The tensors' data begins at the next multiple of 32."""
    key = b'tokenizer.chat_template' + struct.pack('<I', STRING)
    at = data.index(key) + len(key)
    old, = struct.unpack_from('<Q', data, at)
    end = header_end(data)
    head = data[:at] + struct.pack('<Q', len(template)) + template + data[at + 8 + old:end]
    return head + bytes(-len(head) % 32) + data[end + -end % 32:]


def with_name(data, name):
    """With another name, of the same length."""
    key = b'general.name' + struct.pack('<I', STRING)
    at = data.index(key) + len(key)
    size, = struct.unpack_from('<Q', data, at)
    assert size == len(name)
    return data[:at + 8] + name + data[at + 8 + size:]


def with_context(data, n_tokens):
    """Of a llama model: trained, it says, for so many tokens."""
    key = b'llama.context_length' + struct.pack('<I', UINT32)
    at = data.index(key) + len(key)
    return data[:at] + struct.pack('<I', n_tokens) + data[at + 4:]


def header_end(data):
    n_tensors, n_values = struct.unpack_from('<QQ', data, 8)
    at = 24

    def take(form):
        nonlocal at
        value, = struct.unpack_from('<' + form, data, at)
        at += struct.calcsize('<' + form)
        return value

    def skip_string():
        nonlocal at
        n = take('Q')
        at += n

    def skip(kind):
        nonlocal at
        if kind == STRING:
            skip_string()
        elif kind == ARRAY:
            inner, n = take('I'), take('Q')
            for _ in range(n):
                skip(inner)
        else:
            at += SIZES[kind]

    for _ in range(n_values):
        skip_string()
        skip(take('I'))
    for _ in range(n_tensors):
        skip_string()
        n_dims = take('I')
        at += 8 * n_dims + 4 + 8
    return at
