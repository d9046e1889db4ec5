from pathlib import Path

from bench.floor import Floor, measure


def test_every_byte_of_the_files_goes_through(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_bytes(bytes(5_000_001))
    floor = measure(files)
    assert floor.bytes == 10_000_002
    assert floor.wall_seconds > 0


def test_the_floor_is_told_per_uncompressed_gigabyte() -> None:
    floor = Floor(bytes=300_000_000, cpu_seconds=0.12, wall_seconds=0.5)
    assert floor.to_json(1_000_000_000) == {"cpu_seconds_per_gb": 0.12, "mb_per_second": 2000.0}
