"""The schedule by the clock."""

import unittest

from clock import Clock, rate


class Schedule(unittest.TestCase):
    def test_only_the_time_between_start_and_stop_counts(self):
        now = 0.0
        clock = Clock(100.0, now=lambda: now)
        now = 50.0  # loading
        self.assertEqual(clock.progress(), 0.0)
        clock.start()
        now = 80.0
        self.assertEqual(clock.progress(), 0.3)
        clock.stop()
        now = 500.0  # evaluating
        self.assertEqual(clock.elapsed_s(), 30.0)
        clock.start()
        now = 600.0
        self.assertEqual(clock.progress(), 1.0)

    def test_a_continued_run_counts_what_was_spent(self):
        clock = Clock(100.0, spent_s=60.0, now=lambda: 7.0)
        self.assertEqual(clock.progress(), 0.6)
        self.assertFalse(clock.due("checkpoint", 10.0))

    def test_something_is_due_once_in_each_interval(self):
        now = 0.0
        clock = Clock(100.0, now=lambda: now)
        clock.start()
        found = []
        for at in (5.0, 11.0, 12.0, 25.0, 26.0):
            now = at
            found.append(clock.due("checkpoint", 10.0))
        self.assertEqual(found, [False, True, False, True, False])

    def test_the_rate_rises_and_falls_with_the_budget(self):
        for shape in ("linear", "cosine"):
            rates = [rate(at / 100, 1.0, 0.1, shape, 0.02) for at in range(101)]
            self.assertGreater(rates[0], 0.0)
            self.assertEqual(rates[:11], sorted(rates[:11]))
            self.assertEqual(rates[10:], sorted(rates[10:], reverse=True))
            self.assertAlmostEqual(rates[10], 1.0)
            self.assertAlmostEqual(rates[100], 0.02)
        self.assertAlmostEqual(rate(0.55, 1.0, 0.1, "linear", 0.0), 0.5)
        self.assertEqual(rate(0.9, 2.0, 0.0, "constant", 0.0), 2.0)


if __name__ == "__main__":
    unittest.main()
