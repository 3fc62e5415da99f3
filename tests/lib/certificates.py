"""Certificates for servers that are played, made with openssl into a folder: NAME.pem and NAME.key."""

import os
import ssl
import subprocess


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Certificates:
    def __init__(self, folder):
        self.folder = str(folder)

    def at(self, name):
        return os.path.join(self.folder, name)

    def make_ca(self, name):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", self.at(f"{name}.key"), "-out", self.at(f"{name}.pem"))

    def make(self, name, ca, names, dates=()):
        """dates: the arguments that say from when to when."""
        at = self.at
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                "-keyout", at(f"{name}.key"), "-out", at(f"{name}.csr"))
        with open(at(f"{name}.ext"), "w", encoding="ascii") as f:
            f.write(f"subjectAltName={names}\n")
        if not dates:
            openssl("x509", "-req", "-in", at(f"{name}.csr"), "-CA", at(f"{ca}.pem"), "-CAkey", at(f"{ca}.key"),
                    "-CAcreateserial", "-days", "2", "-extfile", at(f"{name}.ext"), "-out", at(f"{name}.pem"))
            return
        with open(at("ca.conf"), "w", encoding="ascii") as f:
            f.write(f"[ca]\ndefault_ca=d\n[d]\ndatabase={at('db')}\nserial={at('serial')}\nnew_certs_dir={self.folder}\n"
                    "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
        with open(at("db"), "w", encoding="ascii"):
            pass
        with open(at("serial"), "w", encoding="ascii") as f:
            f.write("1000\n")
        openssl("ca", "-batch", "-notext", "-config", at("ca.conf"), "-cert", at(f"{ca}.pem"), "-keyfile", at(f"{ca}.key"),
                "-in", at(f"{name}.csr"), "-extfile", at(f"{name}.ext"), "-out", at(f"{name}.pem"), *dates)

    def context(self, name, client_ca=None):
        """Of a server that has this certificate, and asks its clients for one of client_ca's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.at(f"{name}.pem"), self.at(f"{name}.key"))
        if client_ca:
            context.load_verify_locations(self.at(f"{client_ca}.pem"))
            context.verify_mode = ssl.CERT_REQUIRED
        return context
