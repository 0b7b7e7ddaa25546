"""The progress of an installation: packages of the lock file as pip collects them."""

from hack.pip_install import is_slow, packages, progress

LOCK = "# lock\na==1 \\\n    --hash=sha256:0\nb[extra]==2 ; python_version < '4' \\\n    --hash=sha256:0\n"
OUTPUT = [
    "Collecting a==1",
    "  Downloading a",
    "Requirement already satisfied: b in x",
    "Installing collected packages: a",
]


def test_every_package_is_shown_on_a_terminal_and_every_tenth_elsewhere() -> None:
    assert packages(LOCK) == 2
    assert list(progress(iter(OUTPUT), 2, terminal=True)) == ["1/2 a", "2/2 b", "2/2 downloaded, installing"]
    assert list(progress(iter(OUTPUT), 2, terminal=False)) == ["2/2 downloaded, installing"]
    assert list(progress((f"Collecting p{number}==1" for number in range(1, 21)), 20, terminal=False)) == [
        "10/20 p10",
        "20/20 p20",
    ]


def test_only_an_old_pip_is_replaced() -> None:
    assert [is_slow(version) for version in ("22.0.4", "23.2.1", "24.0", "26.3")] == [True, True, False, False]
