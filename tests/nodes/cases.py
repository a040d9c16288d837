# SPDX-License-Identifier: Apache-2.0
"""One service on two nodes, and a store that both share, which works or does not."""
import os
import time

import models
from cluster import INDEX, Failed, meet, run, say, succeeds, together, wait_for
from service import (MODEL, WARNING, Node, learn_natively, load, natively, parts_of, sectors, stored, unmatched)
from service import SHOWN
from stores import MOUNT, Delay, EtcdStore, NfsStore

OWN = (2 * INDEX, 2 * INDEX + 1)
OTHERS = (2 - 2 * INDEX, 3 - 2 * INDEX)
KEY, OTHER_KEY = "/run/key", "/run/other-key"
MOST_LONGER = 1.5  # of a start beside the other guest's; waiting once for a store that is slow is twice as long
undisturbed = {}  # seconds of a start, by its mode


def start_and_load(node, results, name, label):
    """Seconds from the announcement to the last byte."""
    began = time.monotonic()
    node.start(name, OWN[0])
    node.mode(name)
    right = load(SHOWN, OWN) == natively[OWN]
    took = time.monotonic() - began
    results.check(right, f"{label}/bytes")
    return took


def compare(results, label, mode, took):
    """With a start that the store did not disturb."""
    say(f"{label}: {took:.2f} s, {undisturbed[mode]:.2f} s undisturbed")
    results.check(took <= MOST_LONGER * undisturbed[mode], f"{label}/start-up",
                  f"{took:.2f} s, {undisturbed[mode]:.2f} s undisturbed")


def record(node, results, name, label):
    """A first start; what is recorded is on its way to the store when this returns.  Seconds."""
    took = start_and_load(node, results, name, label)
    results.check(node.mode(name) == "record", f"{label}/records", node.status(name))
    node.ready(name)
    return took


def follow(node, results, name, label, ranks, first):
    """A start that follows the template of all."""
    node.start(name, first)
    results.check(node.mode(name) == "use", f"{label}/follows", node.status(name))
    node.wait_until_loaded(name)
    before = sectors()
    right = load(SHOWN, ranks, 0) == natively[ranks]
    status = node.ready(name)
    results.check(right, f"{label}/bytes")
    missed = (sectors() - before) * 512 / status["template_bytes"]
    strange, total = unmatched(status)
    say(f"{label}: {strange / total:.4f} unmatched, {missed:.4f} read by the load itself, {status['unknown']} events unknown")
    results.check(strange <= 0.02 * total, f"{label}/unmatched", f"{strange} of {total}")
    results.check(missed <= 0.02, f"{label}/hits", f"{missed:.4f} of the bytes came from the disk")
    node.stop(name)
    return status


def share(store, results, label, config, key=()):
    """Parts become one template, which both follow, in any order of the nodes."""
    name = f"svc-{label}"
    with Node(label, config) as node:
        undisturbed["record"] = record(node, results, name, label)
        wait_for("the parts to be merged", lambda: parts_of(name) <= stored(store, key))
        results.check(True, f"{label}/merged")
        node.stop(name)
        meet(f"{label}-merged")
        follow(node, results, name, f"{label}/again", OWN, OWN[0])
        # On one of the nodes it was merged, the other one has fetched it.
        wait_for("the template of all", lambda: node.has_local(name))
        follow(node, results, name, f"{label}/permuted", OTHERS, OTHERS[0])
        results.check(not node.said(WARNING), f"{label}/no-warning", node.said(WARNING))
        meet(f"{label}-done")


def unimpressed(node, results, label, warnings):
    """What a service sees of a store that fails: nothing; and what an operator does: one line."""
    results.check(node.is_the_same_runner(), f"{label}/runner")
    said = node.said(WARNING)
    results.check(len(said) == warnings, f"{label}/warnings", f"{len(said)} instead of {warnings}: {said}")


def lost(store, results, config, key=()):
    """The store goes while a part is being written, and comes back."""
    label, name = "lost", "svc-lost"
    with Node(label, config) as node:
        undisturbed["record"] = start_and_load(node, results, name, label)
        meet("lost-loaded")
        delay = Delay(1000)
        delay.__enter__()
        meet("lost-slow")
        node.ready(name)
        if INDEX == 0:
            wait_for("a put to be under way", store.is_written)
            store.lose()
            say("the store is gone in mid-write")
        delay.__exit__()
        meet("lost-gone")
        node.stop(name)
        took = start_and_load(node, results, name, f"{label}/without")
        results.check(node.mode(name) == "use", f"{label}/follows-its-own", node.status(name))
        node.stop(name)
        wait_for("the warning", lambda: node.said(WARNING))
        together("lost-back", 0, store.bring_back)
        wait_for("the store", lambda: succeeds("ppcctl", "template", "list", "--store", store.spec, *key))
        meet("lost-served")
        node.start(name, OWN[0])
        wait_for("the parts to be put and merged", lambda: parts_of(name) <= stored(store, key))
        results.check(True, f"{label}/put-later")
        wait_for("the store to be praised", lambda: node.said("works again"))
        node.stop(name)
        meet("lost-found")
        undisturbed["use"] = start_and_load(node, results, name, f"{label}/found")
        compare(results, f"{label}/without", "use", took)
        unimpressed(node, results, label, 1)
        node.stop(name)
        meet("lost-done")


def slow(store, results, config, warnings, key=()):
    """Each answer of the store takes five seconds."""
    label, name = "slow", "svc-slow"
    with Node(label, config) as node:
        meet("slow-begins")
        with Delay(5000):
            meet("slow-slow")
            compare(results, label, "record", record(node, results, name, label))
            node.stop(name)
            compare(results, f"{label}/again", "use", start_and_load(node, results, name, f"{label}/again"))
            meet("slow-over")
        node.stop(name)
        node.start(name, OWN[0])
        wait_for("the parts to be put and merged", lambda: parts_of(name) <= stored(store, key))
        said = len(node.said(WARNING))
        results.check(said <= warnings, f"{label}/warnings", f"{said}, at most {warnings}: {node.said(WARNING)}")
        results.check(node.is_the_same_runner(), f"{label}/runner")
        node.stop(name)
        meet("slow-done")


def read_only(store, results, config, key=()):
    label, name = "read-only", "svc-readonly"
    meet("read-only-begins")
    store.refuse_writes(True)
    meet("read-only-refused")
    with Node(label, config) as node:
        compare(results, label, "record", record(node, results, name, label))
        wait_for("the warning", lambda: node.said(WARNING))
        node.stop(name)
        meet("read-only-recorded")
        follow(node, results, name, f"{label}/again", OWN, OWN[0])
        unimpressed(node, results, label, 1)
        results.check(not parts_of(name) & stored(store, key), f"{label}/nothing-there")
        meet("read-only-checked")  # of the other one's, too
        store.refuse_writes(False)
        meet("read-only-over")
        node.start(name, OWN[0])
        wait_for("the parts to be put and merged", lambda: parts_of(name) <= stored(store, key))
        results.check(True, f"{label}/put-later")
        node.stop(name)
        meet("read-only-done")


def refused(results, config, label, name, warnings):
    """What lies in the store must not be used: the start is recorded, like a first one."""
    with Node(label, config) as node:
        took = start_and_load(node, results, name, label)
        results.check(node.mode(name) == "record", f"{label}/records", node.status(name))
        if warnings:
            wait_for("the warning", lambda: node.said(WARNING))
            results.check("refused" in node.said(WARNING)[0], f"{label}/reason", node.said(WARNING))
        compare(results, label, "record", took)
        node.stop(name)
        unimpressed(node, results, label, warnings)
        meet(f"{label}-done")


def at_once(store, results):
    """What one node has put the other one sees, though it has just seen that there was nothing."""
    for name in ("zz-first", "zz-second"):  # the first one makes their directory
        def is_there(name=name):
            return succeeds("ppcctl", "template", "show", "--store", store.spec, name)
        results.check(not is_there(), f"at-once/{name}-not-yet")
        together(name, 0, lambda name=name: run("ppcctl", "template", "synth", "--id", name, "--root", MODEL, "--store",
                                                store.spec, MODEL))
        results.check(is_there(), f"at-once/{name}")


def writers(results):
    """A hundred, fifty on each node, at the same time."""
    root = f"{MOUNT}/hundred"
    together("hundred", 0, lambda: os.mkdir(root))
    results.check(a_hundred(root, f"{50 * INDEX}:{50 * INDEX + 50}"), "writers/own-parts")
    meet("hundred-written")
    results.check(a_hundred(root, "0:0"), "writers/all-parts")


def a_hundred(root, nodes):
    os.environ.update(PPC_TEST_STORE=root, PPC_TEST_NODES=nodes)
    try:
        run("policies_test", "--gtest_brief=1", "--gtest_filter=DirectoryStoreTest.AHundredNodesEndWithOneTemplate")
    except Failed as error:
        say(error)
        return False
    return True


def part_nfs(results):
    """A store that works, by NFS."""
    learn_natively()
    store = NfsStore("timeo=600")
    store.serve()
    together("templates", 0, lambda: os.mkdir(f"{MOUNT}/templates"))
    at_once(store, results)
    share(store, results, "nfs", {"store": store.spec})
    writers(results)


def part_nfs_fails(results):
    learn_natively()
    store = NfsStore("timeo=30,retrans=1")
    store.serve()
    config = {"store": store.spec}
    lost(store, results, config)
    together("digest", 0, lambda: store.damage("svc-lost"))
    refused(results, config, "digest", "svc-lost", 1)
    read_only(store, results, config)
    slow(store, results, config, 1)


def part_etcd(results):
    """A store that works and fails, etcd, sealed with a key; then with one that is not theirs."""
    learn_natively()
    for path, secret in ((KEY, "k"), (OTHER_KEY, "o")):
        with open(path, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(secret * 32)
    store = EtcdStore("nodes")
    store.serve()
    config, key = {"store": store.spec, "store_key": KEY}, ("--store-key", KEY)
    share(store, results, "etcd", config, key)
    refused(results, {**config, "store_key": OTHER_KEY}, "key", "svc-etcd", 1)
    # Empty again: a prefix of its own.
    store.spec += "-fails"
    config["store"] = store.spec
    lost(store, results, config, key)
    together("digest", 0, lambda: store.damage("svc-lost"))
    refused(results, config, "digest", "svc-lost", 1)
    read_only(store, results, config, key)
    slow(store, results, config, 1, key)


PARTS = {"nfs": part_nfs, "nfs-fails": part_nfs_fails, "etcd": part_etcd, "models-observer": models.part_observer,
         "models-kmod": models.part_kmod}
