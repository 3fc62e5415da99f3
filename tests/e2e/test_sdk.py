"""What an author of plug-ins has after `install`: headers, pkg-config, a CMake package, and a page that tells the truth."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from usher import BUILD, SOURCE

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
PAGE = SOURCE / "docs" / "plugins.md"


class Sdk:
    """The headers and package files, installed into a folder of their own."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run(["cmake", "--install", BUILD, "--component", "sdk"], check=True, capture_output=True,
                       env={**os.environ, "DESTDIR": str(folder)})
        self.pkgconfig = next(folder.rglob("usher.pc")).parent
        self.cmake = next(folder.rglob("usher-config.cmake")).parent
        self.headers = sorted(folder.rglob("include/usher/*.h"))
        self.include = self.headers[0].parent.parent

    @property
    def environment(self):
        return {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(self.folder), "PKG_CONFIG_PATH": str(self.pkgconfig)}

    def pkg_config(self, *arguments):
        return subprocess.run(["pkg-config", *arguments, "usher"], env=self.environment, check=True,
                              capture_output=True, text=True).stdout.strip()

    def compile(self, source, output):
        return subprocess.run(["cc", "-std=c17", *STRICT, "-fPIC", "-fvisibility=hidden", "-shared", "-I", self.include,
                               source, "-o", output], capture_output=True, text=True)


@pytest.fixture(scope="module")
def sdk(tmp_path_factory):
    return Sdk(tmp_path_factory.mktemp("sdk"))


def test_the_headers_are_there_and_nothing_else(sdk):
    assert [h.name for h in sdk.headers] == ["client.h", "document.h", "endpoint.h", "error.h", "hash.h", "http.h", "match.h", "plugin.h"]
    assert not list(sdk.folder.rglob("plugin.symbols"))


@pytest.mark.parametrize("language", [["cc", "-x", "c", "-std=c17"], ["c++", "-x", "c++", "-std=c++17"]], ids=["c17", "c++17"])
def test_each_header_compiles_alone(sdk, tmp_path, language):
    for header in sdk.headers:
        alone = tmp_path / "alone"
        alone.write_text(f"#include <usher/{header.name}>\n#include <usher/{header.name}>\n")
        done = subprocess.run([*language, *STRICT, "-fsyntax-only", "-I", sdk.include, alone], capture_output=True, text=True)
        assert done.returncode == 0, f"{header.name}:\n{done.stderr}"


def test_pkg_config_knows_the_abi_and_the_folder(sdk):
    numbers = dict(re.findall(r"#define USHER_ABI_(MAJOR|MINOR) (\d+)", (sdk.include / "usher" / "plugin.h").read_text()))
    assert sdk.pkg_config("--variable=plugin_abi") == f"{numbers['MAJOR']}.{numbers['MINOR']}"
    assert sdk.pkg_config("--variable=plugindir").endswith("/lib/usher/plugins")
    assert str(sdk.include) in sdk.pkg_config("--cflags")


def test_a_plug_in_builds_out_of_tree_with_cmake(sdk, tmp_path):
    build_sample(sdk, tmp_path)


def test_a_plug_in_builds_out_of_tree_with_make(sdk, tmp_path):
    copy = tmp_path / "sample"
    shutil.copytree(SOURCE / "tests" / "plugin-sample", copy)
    done = subprocess.run(["make", "install", f"DESTDIR={tmp_path / 'root'}"], cwd=copy, env=sdk.environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "root").rglob("lib/usher/plugins/sample.so"))) == 1


def build_sample(sdk, folder, *options):
    """The sample, built from a copy of its folder; returns its .so."""
    copy = folder / "sample"
    shutil.copytree(SOURCE / "tests" / "plugin-sample", copy)
    for command in (["cmake", "-S", copy, "-B", copy / "build", f"-Dusher_DIR={sdk.cmake}", *options],
                    ["cmake", "--build", copy / "build"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return copy / "build" / "sample.so"


# ---- docs/plugins.md ----

def blocks():
    """The C files that the page shows: those whose block begins with a comment that names one."""
    found = re.findall(r"```c\n(/\* (\S+\.c):.*?)```", PAGE.read_text(), re.S)
    return {name: code for code, name in found}


def test_the_pages_plug_ins_compile_without_a_warning(sdk, tmp_path):
    assert len(blocks()) >= 2
    for name, code in blocks().items():
        source = tmp_path / name
        source.write_text(code)
        done = sdk.compile(source, source.with_suffix(".so"))
        assert done.returncode == 0, f"{name}:\n{done.stderr}"


def test_the_pages_first_plug_in_is_short():
    name, code = next(iter(blocks().items()))
    assert name == "hosts.c"
    assert len(code.splitlines()) < 80
