"""Which address an instance is registered with."""

import ipaddress
import json
import subprocess

import usher
from verdict import compare, judges

CHOOSE = usher.BUILD / "tests" / "choose-address"


def pattern(text):
    """A regular expression of the kind that is used for names, as a pattern of a shell."""
    return text.replace(".*", "*").replace(".+", "?*")


def network(text):
    """A prefix of an address in dots, as a network; a network stays one."""
    if "/" in text:
        return text
    bytes_ = text.replace("\\.", ".").removesuffix(".*").removesuffix("*").rstrip(".").split(".")
    return ".".join(bytes_ + ["0"] * (4 - len(bytes_))) + f"/{8 * len(bytes_)}"


def choose(v, field, interfaces, address_from):
    """The address that usher chooses, or None."""
    field.folder.mkdir(parents=True, exist_ok=True)
    path = field.folder / f"{v['id']}.yaml"
    path.write_text(usher.as_yaml({"sources": [{"name": "files", "plugin": "file", "options": {"path": "/x"}}], "registrations": [
        {"service": "svc", "port": 80, "address_from": {"ignored_interfaces": [], **address_from}}]}))
    done = subprocess.run([str(CHOOSE), str(path)], input=json.dumps(interfaces), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    text = done.stdout.strip()
    return None if text.startswith("none") else text


@judges("inet-ignore")
def ignore(v, field):
    given = v["input"]
    interfaces = [{"name": given["interface"], "index": 2, "up": True, "addresses": ["10.0.0.5"]}]
    # Loopback is not ignored, but chosen only where its name is said.
    chosen = choose(v, field, interfaces, {"interfaces": [given["interface"]],
                                           "ignored_interfaces": [pattern(p) for p in given["ignored_interfaces"]]})
    yield
    return compare(chosen is None, v["expected"]["ignored"])


@judges("inet-preferred")
def preferred(v, field):
    given = v["input"]
    networks = [network(n) for n in given["preferred_networks"]]
    if given["use_only_site_local_interfaces"]:
        networks.append("private")
    chosen = choose(v, field, [{"name": "eth0", "index": 2, "up": True, "addresses": [given["address"]]}],
                    {"networks": networks} if networks else {})
    yield
    address = ipaddress.ip_address(given["address"])
    private = [ipaddress.ip_network(n) for n in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
    wanted = [n for name in networks for n in (private if name == "private" else [ipaddress.ip_network(name)])]
    promised = not wanted or any(address in n for n in wanted)
    return compare(chosen is not None, v["expected"]["preferred"], promised,
                   "a network is one, with its prefix: 10.20.0.0/16 is understood, and 10.2 has no part in 10.200")


def promise(given):
    """Reachable by others, IPv4 first, the lowest interface, its first address."""
    best = []
    for interface in given["interfaces"]:
        if not interface["up"] or interface["name"] == "lo" or any(
                interface["name"].startswith(p.removesuffix(".*")) if p.endswith(".*") else interface["name"] == p
                for p in given["ignored_interfaces"]):
            continue
        for n, text in enumerate(interface["addresses"]):
            address = ipaddress.ip_address(text)
            if not (address.is_link_local or address.is_loopback or address.is_multicast or address.is_unspecified):
                best.append((address.version, interface["index"], n, text))
    return min(best)[3] if best else None


@judges("inet-select")
def select(v, field):
    given = v["input"]
    chosen = choose(v, field, given["interfaces"], {"ignored_interfaces": [pattern(p) for p in given["ignored_interfaces"]]})
    yield
    return compare(chosen, v["expected"]["address"], promise(given),
                   "the first address of an interface is the one that the kernel calls primary; IPv6 will do where there is no IPv4")
