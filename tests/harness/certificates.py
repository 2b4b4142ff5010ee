"""Authorities and certificates for tests of TLS (openssl)."""

import os
import subprocess


def openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Authority:
    """Signs certificates. All files are in `folder`: NAME.pem has a certificate, and NAME.key its key."""

    def __init__(self, folder, name="authority"):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.name = folder, name
        self.certificate = f"{folder}/{name}.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", f"/CN={name} of tests", "-keyout", f"{folder}/{name}.key", "-out", self.certificate)

    def issue(self, name, names, to=None):
        """Makes a certificate with these subjectAltNames ("DNS:a.example,IP:127.0.0.1"), or replaces it. The files are
        called `to`, or `name`. Returns the options of the command line that use it, with this authority."""
        to = to or name
        key, request, certificate = (f"{self.folder}/{to}.{end}" for end in ("key", "request", "pem"))
        extensions = f"{self.folder}/{to}.extensions"
        with open(extensions, "w") as out:
            out.write(f"subjectAltName={names}\n")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", f"{self.folder}/{self.name}.key",
                "-CAcreateserial", "-days", "1", "-extfile", extensions, "-out", certificate)
        return [f"--tls-cert={certificate}", f"--tls-key={key}"]

    @property
    def trusted(self):
        return [f"--tls-ca={self.certificate}"]
