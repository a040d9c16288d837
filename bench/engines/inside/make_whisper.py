# SPDX-License-Identifier: Apache-2.0
"""make_whisper.py DIR LAYERS WIDTH: a Whisper in whisper.cpp's own format, random weights in f16, and two seconds of sound."""
import math
import struct
import sys
import wave

import numpy

VOCABULARY, WORDS, AUDIO, TEXT, MELS, FFT, RATE = 51864, 50257, 1500, 448, 80, 201, 16000
RANDOM = numpy.random.default_rng(1)


def integers(file, *values):
    file.write(struct.pack(f"{len(values)}i", *values))


def tensor(file, name, *shape, kind=numpy.float16):
    data = (RANDOM.standard_normal(shape, dtype=numpy.float32) * numpy.float32(0.02)).astype(kind)
    words = name.encode()
    integers(file, len(shape), len(words), 1 if kind is numpy.float16 else 0, *reversed(shape))
    file.write(words)
    file.write(data.tobytes())


def single(file, name, *shape):
    tensor(file, name, *shape, kind=numpy.float32)


def normal(file, name, width):
    for part in ("weight", "bias"):
        single(file, f"{name}.{part}", width)


def linear(file, name, out, into, has_bias=True):
    tensor(file, f"{name}.weight", out, into)
    if has_bias:
        single(file, f"{name}.bias", out)


def attention(file, name, width):
    normal(file, f"{name}_ln", width)
    for part in ("query", "key", "value", "out"):
        linear(file, f"{name}.{part}", width, width, part != "key")


def blocks(file, side, layers, width):
    for layer in range(layers):
        name = f"{side}.blocks.{layer}."
        attention(file, name + "attn", width)
        if side == "decoder":
            attention(file, name + "cross_attn", width)
        normal(file, name + "mlp_ln", width)
        linear(file, name + "mlp.0", 4 * width, width)
        linear(file, name + "mlp.2", width, 4 * width)


def model(path, layers, width):
    with open(path, "wb") as file:
        integers(file, 0x67676d6c, VOCABULARY, AUDIO, width, width // 64, layers, TEXT, width, width // 64, layers,
                 MELS, 1)
        integers(file, MELS, FFT)
        file.write(RANDOM.random((MELS, FFT), dtype=numpy.float32).tobytes())
        integers(file, WORDS)
        for number in range(WORDS):
            word = f" w{number}".encode() if number else b" "  # the program looks the blank up
            integers(file, len(word))
            file.write(word)
        single(file, "encoder.positional_embedding", AUDIO, width)
        tensor(file, "encoder.conv1.weight", width, MELS, 3)
        single(file, "encoder.conv1.bias", width, 1)
        tensor(file, "encoder.conv2.weight", width, width, 3)
        single(file, "encoder.conv2.bias", width, 1)
        blocks(file, "encoder", layers, width)
        normal(file, "encoder.ln_post", width)
        single(file, "decoder.positional_embedding", TEXT, width)
        tensor(file, "decoder.token_embedding.weight", VOCABULARY, width)
        blocks(file, "decoder", layers, width)
        normal(file, "decoder.ln", width)


def sound(path):
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(b"".join(struct.pack("<h", int(8000 * math.sin(at * at / 40000))) for at in range(2 * RATE)))


model(f"{sys.argv[1]}/ggml-random.bin", int(sys.argv[2]), int(sys.argv[3]))
sound(f"{sys.argv[1]}/sound.wav")
