# SPDX-License-Identifier: Apache-2.0
"""Parts of the native demo that need no device: what the disk is told, who is a disturber, refusals."""
import json
import os
import tempfile
import unittest

import paths  # noqa: F401 (sets the paths)
from demo import cgroup, control, disturbance, host, results, slowdisk


def stat(pid, parent, ticks, flags=0, name="a b) c"):
    return f"{pid} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {ticks} 1 2 3 20 0 1 0 100"


class DisturbanceTest(unittest.TestCase):
    def test_stat_of_a_process_with_a_nasty_name(self):
        self.assertEqual(disturbance.parse_stat(stat(7, 3, 10)), (7, 3, False, 16))
        self.assertTrue(disturbance.parse_stat(stat(7, 2, 10, disturbance.KERNEL_THREAD))[2])

    def test_what_belongs_to_the_demo_is_no_disturber(self):
        processes = [(1, 0, False, 5), (10, 1, False, 100), (11, 10, False, 50), (12, 11, False, 7),
                     (20, 1, False, 3), (21, 20, False, 4), (2, 0, True, 1000)]
        self.assertEqual(disturbance.foreign_ticks(processes, {10}), 5 + 3 + 4)
        self.assertEqual(disturbance.foreign_ticks(processes, {10, 20}), 5)

    def test_a_parent_that_has_just_ended_is_no_endless_search(self):
        self.assertEqual(disturbance.foreign_ticks([(5, 4, False, 2), (4, 5, False, 2)], {1}), 4)

    def test_a_disk_is_what_it_was_set_to(self):
        self.assertEqual(disturbance.disk_doubt([297e6, 301e6], 300e6), "")
        self.assertIn("250 MB/s of the 300", disturbance.disk_doubt([250e6, 301e6], 300e6))
        self.assertIn("800 to 1600 MB/s", disturbance.disk_doubt([800e6, 1600e6]))
        self.assertEqual(disturbance.disk_doubt([], 300e6), "")

    def test_a_table_is_judged_by_the_disk_before_and_after_it(self):
        data = {"settings": {"mbps": 300},
                "disk_bytes_per_s": {"start": 210e6, "rich": 299e6, "limit": 300e6, "end": 250e6}}
        self.assertEqual(results.disk_doubt(data, "rich"), "")
        self.assertIn("250 MB/s", results.disk_doubt(data, "limit"))
        self.assertIn("210 MB/s", results.disk_doubt(data))

    def test_watching_nothing(self):
        taken = disturbance.Watch([os.getpid()]).end()
        self.assertTrue(all(value >= 0 for value in taken.values()))


class SlowDiskTest(unittest.TestCase):
    def test_nbdkit_is_told_plain_bits_and_milliseconds(self):
        self.assertEqual(slowdisk.rate_bits(300), 2400000000)
        self.assertEqual((slowdisk.delay_text(2000), slowdisk.delay_text(500)), ("2ms", "0.5ms"))

    def test_fio_is_told_as_many_files_as_an_option_holds(self):
        files = [f"/a:b/model-{number:05d}-of-00163.safetensors" for number in range(163)]
        directory, names = slowdisk.files_of_fio(files)
        self.assertEqual(directory, r"--directory=/a\:b")
        self.assertLess(len(names), 4000)
        self.assertGreater(names.count(":"), 90)
        self.assertEqual(slowdisk.files_of_fio(["/d/x:y"]), ["--directory=/d", r"--filename=x\:y"])

    def test_the_kernel_complains_about_this_device_alone(self):
        line = "I/O error, dev loop3, sector 8 op 0x0:(READ) flags 0x80700"
        self.assertTrue(slowdisk.is_complaint(line, "loop3"))
        self.assertFalse(slowdisk.is_complaint(line, "loop4"))
        self.assertFalse(slowdisk.is_complaint(line.replace("loop3", "loop31"), "loop3"))
        self.assertFalse(slowdisk.is_complaint("EXT4-fs (loop3): mounted filesystem", "loop3"))

    def test_bandwidth_in_the_report_of_fio(self):
        report = {"jobs": [{"error": 0, "read": {"bw_bytes": 300123456}}]}
        self.assertEqual(slowdisk.bandwidth_of("a note\n" + json.dumps(report)), 300123456.0)
        report["jobs"][0]["error"] = 5
        with self.assertRaises(slowdisk.DiskError):
            slowdisk.bandwidth_of(json.dumps(report))


class HostTest(unittest.TestCase):
    def test_a_kernel_without_types_is_refused(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertIn("no BTF" if os.geteuid() == 0 else "root", host.refusal(root))

    def test_control_groups_of_both_versions(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertIsNone(cgroup.kind(root))
            path = os.path.join(root, "cgroup.subtree_control")
            for text, wanted in (("cpu io\n", None), ("cpu memory\n", cgroup.Cgroup)):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.assertIs(cgroup.kind(root), wanted)
            os.mkdir(os.path.join(root, "memory"))
            with open(os.path.join(root, "memory", "memory.limit_in_bytes"), "w", encoding="utf-8"):
                pass
            self.assertIs(cgroup.kind(root), cgroup.CgroupV1)

    def test_a_member_anywhere_in_a_status(self):
        status = {"mounts": [{"a": 1}, {"runner": {"device": {"events_lost": 0}}}]}
        self.assertEqual(control.find_key(status, "events_lost"), 0)
        self.assertIsNone(control.find_key(status, "nothing"))


if __name__ == "__main__":
    unittest.main()
