#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One worker of a service: loads the model, or its part of it, to its device.

Prints two lines of JSON: the first when the model is loaded, the second, with the checksum of what
the device holds, when its stdin is closed.  Times are CLOCK_MONOTONIC, the same for all processes.
"""
import argparse
import ctypes
import json
import mmap
import os
import sys
import time
import zlib

sys.dont_write_bytecode = True  # beside this file
import slices  # noqa: E402

MODULUS = (1 << 61) - 1


class Sum:
    """A checksum in which the order of the tensors counts."""

    def __init__(self):
        self.count = self.value = self.bytes = 0

    def add(self, tensor_sum, size):
        self.count += 1
        self.value = (self.value + self.count * tensor_sum) % MODULUS
        self.bytes += size


def _shards(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".safetensors"))


class PlainReader:
    """Without any framework: maps the shards and reads what a worker takes."""

    def __init__(self, args):
        self.args = args
        self.sum = Sum()

    def prepare(self):
        pass

    def load(self):
        for path in _shards(self.args.model):
            start, entries = slices.header(path)
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                with memoryview(mapped) as data:
                    for name, (shape, begin, _) in entries.items():
                        self._read(data[start + begin:], slices.runs(name, shape, self.args.rank,
                                                                     self.args.ranks))

    def _read(self, data, runs):
        code = 0
        for offset, size in runs:
            code = zlib.crc32(data[offset:offset + size], code)
        self.sum.add(code, sum(size for _, size in runs))
        data.release()

    def device(self):
        return {"name": "none", "bus_id": None}

    def checksum(self):
        return self.sum


class TorchReader:
    """What the loaders with torch have in common: the device and its checksum."""

    def __init__(self, args):
        self.args = args
        self.torch = None
        self.index = None  # of the CUDA device
        self.where = "cpu"
        self.early = None  # on the CPU, summing is what reads mapped tensors

    def prepare(self):
        import torch
        self.torch = torch
        if self.args.device == "cuda":
            self.index = self.args.rank % torch.cuda.device_count()
            self.where = f"cuda:{self.index}"
            torch.zeros(1, device=self.where)  # makes the context
            torch.cuda.synchronize(self.index)

    def load(self):
        self.load_tensors()
        if self.index is None:
            self.early = self._sum()
        else:
            self.torch.cuda.synchronize(self.index)

    def load_tensors(self):
        raise NotImplementedError

    def tensors(self):
        raise NotImplementedError

    def checksum(self):
        return self.early or self._sum()

    def _sum(self):
        total = Sum()
        for tensor in self.tensors():
            words = tensor.detach().contiguous().view(-1).view(self.torch.int16)
            total.add(int(words.sum(dtype=self.torch.int64)), words.numel() * 2)
        return total

    def device(self):
        if self.index is None:
            return {"name": "cpu", "bus_id": None}
        return {"name": self.torch.cuda.get_device_name(self.index), "bus_id": bus_id(self.torch, self.index)}


class SafetensorsReader(TorchReader):
    """Tensor by tensor through safe_open, as vLLM's iterator does."""

    def __init__(self, args):
        super().__init__(args)
        self.held = []

    def prepare(self):
        super().prepare()
        import safetensors
        self.safe_open = safetensors.safe_open

    def load_tensors(self):
        for path in _shards(self.args.model):
            with self.safe_open(path, framework="pt", device=self.where) as file:
                for name in file.keys():
                    self.held.append(self._take(file, name))

    def _take(self, file, name):
        if self.args.ranks == 1:
            return file.get_tensor(name)
        whole = file.get_slice(name)
        part = slices.cut(name, whole.get_shape(), self.args.rank, self.args.ranks)
        if part is None:
            return whole[:]
        dimension, begin, end = part
        return whole[begin:end] if dimension == 0 else whole[:, begin:end]

    def tensors(self):
        return self.held


class TransformersReader(TorchReader):
    """AutoModelForCausalLM.from_pretrained, the whole model in one process."""

    def __init__(self, args):
        super().__init__(args)
        self.model = None

    def prepare(self):
        super().prepare()
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import transformers
        self.auto = transformers.AutoModelForCausalLM
        version = tuple(int(part) for part in transformers.__version__.split(".")[:2])
        self.type_option = "dtype" if version >= (4, 56) else "torch_dtype"

    def load_tensors(self):
        where = {} if self.index is None else {"device_map": {"": self.where}}
        where[self.type_option] = self.torch.bfloat16
        self.model = self.auto.from_pretrained(self.args.model, local_files_only=True, **where)

    def tensors(self):
        return self.model.parameters()


def bus_id(torch, index):
    """The device's PCI address: torch's own, or the driver's where torch has none yet."""
    facts = torch.cuda.get_device_properties(index)
    if hasattr(facts, "pci_bus_id"):
        return f"{facts.pci_domain_id:04x}:{facts.pci_bus_id:02x}:{facts.pci_device_id:02x}.0"
    text = ctypes.create_string_buffer(64)
    if ctypes.CDLL("libcuda.so.1").cuDeviceGetPCIBusId(text, len(text), index) != 0:
        return None
    return text.value.decode().lower()


READERS = {"safetensors": SafetensorsReader, "transformers": TransformersReader, "plain": PlainReader}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--framework", choices=sorted(READERS), required=True)
    parser.add_argument("--device", choices=("cuda", "cpu", "none"), required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    args = parser.parse_args()
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries may print what they like
    reader = READERS[args.framework](args)
    reader.prepare()
    begin = time.monotonic()
    reader.load()
    end = time.monotonic()
    print(json.dumps({"rank": args.rank, "pid": os.getpid(), "begin": begin, "end": end,
                      "device": reader.device()}), file=answers, flush=True)
    sys.stdin.read()
    total = reader.checksum()
    print(json.dumps({"checksum": f"{total.value:016x}", "bytes": total.bytes,
                      "tensors": total.count}), file=answers, flush=True)


if __name__ == "__main__":
    main()
