"""The sockets: made, inherited, replaced, refused."""

import os
import socket
import subprocess
import tempfile

import pytest

from usher import PLUGINS, USHERD, endpoint, wait_until

CATALOG = {"services": {"catalog": {}}}
ONE = {"catalog": [endpoint("catalog-a", 8081)]}


def test_a_leftover_of_a_killed_daemon_is_replaced(usherd):
    daemon = usherd(CATALOG)
    daemon.write_endpoints(ONE)
    daemon.start()
    daemon.kill()
    assert daemon.socket.exists()
    daemon.start()
    assert daemon.pick().status == 200


def test_a_live_daemon_is_not_pushed_aside(usherd):
    first = usherd(CATALOG, name="first")
    first.write_endpoints(ONE)
    first.start()
    second = usherd(name="second", config={
        "api": {"consumer": {"socket": str(first.socket)}, "admin": {"socket": str(first.admin)}}})
    second.start(wait=False)
    assert second.wait_end() == 1
    assert str(first.socket) in second.log_text()
    assert first.pick().status == 200


def test_what_is_no_socket_is_not_removed(usherd):
    daemon = usherd(CATALOG)
    daemon.write_endpoints(ONE)
    daemon.socket.write_text("somebody's file")
    daemon.start(wait=False)
    assert daemon.wait_end() == 1
    assert daemon.socket.read_text() == "somebody's file"
    assert str(daemon.socket) in daemon.log_text()


def test_a_second_daemon_on_the_same_state_is_refused(usherd):
    first = usherd(name="first")
    first.start()
    second = usherd(name="second", config={"state_dir": str(first.folder / "state")})
    second.start(wait=False)
    assert second.wait_end() == 1
    assert str(first.folder / "state") in second.log_text()


def test_sockets_that_systemd_passes_are_used(usherd):
    daemon = usherd(CATALOG)
    daemon.write_endpoints(ONE)
    listeners = []
    for path in (daemon.socket, daemon.admin):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(16)
        listeners.append(listener)
    # A consumer that is early waits in the queue instead of failing.
    early = socket.socket(socket.AF_UNIX)
    early.connect(str(daemon.socket))
    early.sendall(b"GET /v1/services HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    # As systemd does it: descriptors from 3 on, and the variables that announce them to this very process.
    runner = ("import os, sys; [os.dup2(fd, 3 + i) for i, fd in enumerate(map(int, sys.argv[1].split(',')))];"
              "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='2');"
              "[os.set_inheritable(3 + i, True) for i in range(2)]; os.execv(sys.argv[2], sys.argv[2:])")
    high = [os.dup2(listener.fileno(), 100 + i) for i, listener in enumerate(listeners)]
    for fd in high:
        os.set_inheritable(fd, True)
    inode = os.stat(daemon.socket).st_ino
    with open(daemon.log_path, "ab") as log:
        daemon.process = subprocess.Popen(
            ["/usr/bin/python3", "-c", runner, ",".join(map(str, high)), str(USHERD), "--config", str(daemon.config_path)],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, pass_fds=high)
    for fd in high:
        os.close(fd)
    for listener in listeners:
        listener.close()

    assert early.recv(65536).startswith(b"HTTP/1.1 200 OK")
    early.close()
    wait_until("the service is in", lambda: daemon.pick().status == 200)
    assert os.stat(daemon.socket).st_ino == inode
    daemon.stop()
    # systemd's sockets are systemd's to remove.
    assert daemon.socket.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_owner_group_and_mode_are_as_configured(usherd):
    daemon = usherd()
    daemon.configure({"api": {"consumer": {"socket": str(daemon.socket), "mode": "0660", "owner": "nobody", "group": "daemon"},
                              "admin": {"socket": str(daemon.admin), "mode": "0600"}}})
    daemon.start()
    owner = subprocess.run(["stat", "-c", "%U %G %a", daemon.socket], capture_output=True, text=True).stdout.strip()
    assert owner == "nobody daemon 660"
    assert os.stat(daemon.admin).st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written_is_named(usherd):
    daemon = usherd()
    blocker = daemon.folder / "file"
    blocker.write_text("")
    daemon.configure({"api": {"consumer": {"socket": f"{blocker}/usher.sock"}, "admin": {"socket": str(daemon.admin)}}})
    daemon.start(wait=False)
    assert daemon.wait_end() == 1
    assert f"{blocker}/usher.sock" in daemon.log_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a mount namespace, and to become somebody else")
def test_selinux_is_named_where_it_enforces():
    with tempfile.TemporaryDirectory() as folder:
        # Nobody may read here, and write nowhere but into the state.
        os.chmod(folder, 0o755)
        state = os.path.join(folder, "state")
        os.mkdir(state)
        os.chown(state, 65534, 65534)
        config = os.path.join(folder, "usher.yaml")
        with open(config, "w") as file:
            file.write(f"state_dir: {state}\nplugin_dirs: [{PLUGINS}]\napi:\n  consumer: {{socket: {folder}/usher.sock}}\n"
                       f"  admin: {{socket: {state}/admin.sock}}\n")
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c",
             "mount -t tmpfs tmpfs /sys/fs && mkdir /sys/fs/selinux && echo 1 >/sys/fs/selinux/enforce && "
             'exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"', "sh", str(USHERD), "--config", config],
            capture_output=True, text=True, timeout=60)
        assert done.returncode == 1, done.stderr
        assert f"{folder}/usher.sock" in done.stderr
        assert "SELinux is enforcing" in done.stderr


def test_a_group_that_is_not_there_is_named(usherd):
    daemon = usherd()
    daemon.configure({"api": {"consumer": {"socket": str(daemon.socket)},
                              "admin": {"socket": str(daemon.admin), "group": "no-such-group"}}})
    daemon.start(wait=False)
    assert daemon.wait_end() == 1
    assert "no-such-group" in daemon.log_text()


def test_a_flood_of_connections_is_survived(usherd):
    daemon = usherd(CATALOG)
    daemon.write_endpoints(ONE)
    daemon.start()
    kept = []
    try:
        for _ in range(300):
            s = socket.socket(socket.AF_UNIX)
            s.connect(str(daemon.socket))
            kept.append(s)
        assert daemon.pick().status == 200
    finally:
        for s in kept:
            s.close()
    wait_until("it answers as before", lambda: daemon.pick().status == 200)
