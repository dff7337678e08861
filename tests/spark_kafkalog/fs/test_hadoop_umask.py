"""Test that directories and files on HDFS have the permissions that Hadoop's own clients would give them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_kafkalog.fs.hadoop_umask import KEY, parse, umask
from spark_kafkalog.fs.hdfs import HdfsFiles
from spark_kafkalog.fs.opening import open_files

SITE = "<configuration><property><name>{}</name><value> {} </value></property></configuration>"


def configure(directory: Path, text: str, file: str = "core-site.xml") -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / file).write_text(SITE.format("fs.permissions.umask-mode", text))


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        *(("022", 0o022), ("0027", 0o027), ("000", 0)),
        *(("u=rwx,g=rwx,o=", 0o007), ("u=rwx, g=rx, o=rx", 0o022), ("a=rx", 0o222), ("=rwx", 0), ("ug=rwx", 0o007)),
    ],
)
def test_umasks(text: str, mask: int) -> None:
    assert parse(text) == mask


@pytest.mark.parametrize("text", ["22", "0o22", "028", "rwxr-x---", "u-w", "${env.UMASK}", "01777"])
def test_texts_that_are_no_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    configure(tmp_path, text)
    with pytest.raises(OSError, match=r"core-site\.xml: fs\.permissions\.umask-mode=.*: expected octal digits such"):
        umask()


def test_where_the_umask_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert umask() == 0o022
    configure(tmp_path / "home" / "etc" / "hadoop", "077")
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path / "home"))
    assert umask() == 0o077
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "none"))
    assert umask() == 0o022
    configure(tmp_path / "conf", "077")
    configure(tmp_path / "conf", "002", "hdfs-site.xml")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    assert umask() == 0o002


@pytest.mark.parametrize(
    ("core", "hdfs", "mask"),
    [
        ("{nested}<value>007</value><final>true</final></property>{nested}<value>002</value></property>", "", 0o007),
        ("{nested}<value>007</value><final> true </final></property>", "{nested}<value>002</value></property>", 0o002),
        ("{nested}<value>007</value><final>true</final></property>", "{nested}<value>002</value></property>", 0o007),
        ("{nested}<final>true</final></property>", "{nested}<value>002</value></property>", 0o022),
        (f'<property name="{KEY}" value="007" final="true"/>', "{nested}<value>002</value></property>", 0o007),
        ("{nested}<value>007</value></property>", "{nested}<value>002</value><final>true</final></property>", 0o002),
    ],
)
def test_later_settings_do_not_replace_a_final_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, core: str, hdfs: str, mask: int
) -> None:
    """As `loadProperty` of Hadoop's Configuration has it."""
    nested = f"<property><name>{KEY}</name>"
    for name, text in (("core-site.xml", core), ("hdfs-site.xml", hdfs)):
        (tmp_path / name).write_text(f"<configuration>{text.format(nested=nested)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert umask() == mask


class NameNode:
    """hdfs-native's client of a file system whose directory /acl has a default ACL."""

    def __init__(self) -> None:
        self.made: dict[str, int] = {}
        self.error: Exception | None = None

    def get_acl_status(self, path: str) -> SimpleNamespace:
        if self.error is not None:
            raise self.error
        if path not in ("/", "/acl", "/plain"):
            raise FileNotFoundError(path)
        scopes = ["access", "default"] if path == "/acl" else ["access"] * (path == "/plain")
        return SimpleNamespace(entries=[SimpleNamespace(scope=each) for each in scopes])

    def mkdirs(self, path: str, permission: int, create_parent: bool) -> None:
        self.made[path] = permission

    def create(self, path: str, options: Any) -> None:
        self.made[path] = options.permission


@pytest.fixture
def name_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> NameNode:
    """Return the client of /, with a umask of 027."""
    configure(tmp_path, "027")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    made = NameNode()
    monkeypatch.setattr(HdfsFiles, "_client", made)
    return made


def modes_below(name_node: NameNode, *directories: str) -> list[str]:
    """Return the permissions that are asked for in directories: of a directory, and of a file."""
    files = HdfsFiles("hdfs://n:1")
    for each in directories:
        files.make_directories(f"hdfs://n:1{each}/new")
        files.create(f"hdfs://n:1{each}/file")
    return [f"{mode:o}" for mode in name_node.made.values()]


def test_a_default_acl_replaces_the_umask(name_node: NameNode) -> None:
    assert modes_below(name_node, "/acl", "/acl/a/b", "/plain", "") == ["777", "666"] * 2 + ["750", "640"] * 2


def test_a_name_node_that_heeds_the_umask_beside_acls(name_node: NameNode, tmp_path: Path) -> None:
    property_of = "<property><name>{}</name><value>{}</value></property>"
    settings = [
        property_of.format(KEY, "027"),
        property_of.format("dfs.namenode.posix.acl.inheritance.enabled", "false"),
    ]
    (tmp_path / "core-site.xml").write_text(f"<configuration>{''.join(settings)}</configuration>")
    assert modes_below(name_node, "/acl") == ["750", "640"]


def test_a_name_node_without_acls(name_node: NameNode) -> None:
    name_node.error = RuntimeError('RPCError("org.apache.hadoop.hdfs.protocol.AclException", "has been rejected")')
    assert modes_below(name_node, "/acl") == ["750", "640"]


@pytest.mark.peer
def test_permissions_on_hdfs(hdfs_target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tmp_path, "007")
    files, path = open_files(hdfs_target)
    assert isinstance(files, HdfsFiles)

    def made(name: str) -> list[str]:
        files.make_directories(f"{path}/{name}/below")
        files.write(f"{path}/{name}/file", b"1")
        files.replace(f"{path}/{name}/lease", b"1")
        paths = (f"{path}/{name}{each}" for each in ("", "/below", "/file", "/lease"))
        return [f"{files._client.get_file_info(each).permission:o}" for each in paths]

    assert made("default") == ["755", "755", "644", "644"]
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert made("configured") == ["770", "770", "660", "660"]


@pytest.mark.peer
def test_a_default_acl_on_hdfs(hdfs_target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hdfs_native import AclEntry

    configure(tmp_path, "077")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    files, path = open_files(hdfs_target)
    assert isinstance(files, HdfsFiles)
    files.make_directories(path)
    files._client.modify_acl_entries(path, [AclEntry("user", "default", "rwx", "reader")])
    files.make_directories(f"{path}/one/two")
    files.write(f"{path}/one/two/file", b"1")
    # The bits of the group are the ACL's mask.
    for made, group in (("", "7"), ("/two", "7"), ("/two/file", "6")):
        found = files._client.get_acl_status(f"{path}/one{made}")
        assert "reader" in [each.name for each in found.entries if each.scope == "access"]
        assert f"{found.permission:o}"[-2] == group
