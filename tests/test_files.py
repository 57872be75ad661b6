"""Files are written whole or not at all."""

import os

import pytest

from xrisk.files import written_whole


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_the_file_is_there_when_it_is_complete(tmp_path):
    with written_whole(tmp_path / "a") as file:
        file.write(b"new")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(TypeError), written_whole(tmp_path / "a") as file:
        file.write("text where bytes belong")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_disk_that_is_full_leaves_the_old_file(tmp_path, monkeypatch):
    def full(number):
        raise OSError("disk full")

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"), written_whole(tmp_path / "a") as file:
        file.write(b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with written_whole(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_folder_that_is_not_there_is_told_by_the_name_asked_for(tmp_path):
    path = tmp_path / "none" / "a"
    with pytest.raises(FileNotFoundError, match="none/a cannot be written: No such file"), written_whole(path):
        pass


def test_a_device_or_a_pipe_stays_what_it_is(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is a device or a pipe"), written_whole(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is a directory"), written_whole(tmp_path):
        pass
