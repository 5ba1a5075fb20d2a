"""What was made for a key, as long as it is among those used last."""

import threading

from bmrm.base.recent import Recent


def test_what_was_used_longest_ago_is_made_again():
    made = []

    def get(key):
        return recent.get(key, lambda: made.append(key) or 10 * key)

    recent = Recent(2)
    assert [get(key) for key in (1, 2, 1, 3, 1, 2)] == [10, 20, 10, 30, 10, 20]
    assert made == [1, 2, 3, 2]  # 3 removed 2, which was used before 1
    assert len(recent) == 2


def test_an_error_keeps_nothing():
    recent = Recent(2)
    for _ in range(2):
        try:
            recent.get("key", lambda: 1 // 0)
        except ZeroDivisionError:
            continue
    assert recent.get("key", lambda: 5) == 5


def test_threads_get_the_values_of_their_keys():
    recent, wrong = Recent(3), []

    def work(first):
        for number in range(2000):
            key = (first + number) % 7
            if recent.get(key, lambda key=key: -key) != -key:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(recent) == 3
