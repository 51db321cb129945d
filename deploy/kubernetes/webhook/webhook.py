#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutating admission webhook: pods with the label capo-nccl/record=true are recorded by capo. Standard library only.

usage: webhook.py --image IMAGE [--logs-claim NAME] [--shm SIZE] [--port N] [--certificate FILE --key FILE]

POST /mutate takes an AdmissionReview of admission.k8s.io/v1 and answers with one; GET /healthz says ok. Every pod is
allowed: when something is wrong, it starts without capo and the answer has a warning.
"""
import argparse
import base64
import http.server
import json
import ssl
import sys
import threading

from inject import Settings, inject

MOST_BYTES = 8 << 20  # the API server's own limit is 3 MiB


def answer(review, settings):
    """The AdmissionReview that answers one; ValueError: it is none."""
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview" or not isinstance(review.get("request"), dict):
        raise ValueError("expected an AdmissionReview with a request")
    request = review["request"]
    response = {"uid": request.get("uid", ""), "allowed": True}
    try:
        patch, warnings = inject(request.get("object") or {}, settings)
    except (AttributeError, KeyError, TypeError) as wrong:  # a pod of a shape that the API server would refuse
        patch, warnings = [], [f"capo: not recorded: {type(wrong).__name__}: {wrong}"]
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
    if warnings:
        response["warnings"] = warnings
    return {"apiVersion": review.get("apiVersion", "admission.k8s.io/v1"), "kind": "AdmissionReview", "response": response}


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = 10
    wbufsize = -1  # head and body in one packet

    def reply(self, status, body, kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(*((200, b"ok\n") if self.path == "/healthz" else (404, b"expected /healthz or POST /mutate\n")))

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return self.reply(413, b"expected a Content-Length of at most 8 MiB\n")
        body = self.rfile.read(int(length))
        if self.path.split("?")[0] != "/mutate":
            return self.reply(404, b"expected /mutate\n")
        try:
            review = answer(json.loads(body), self.server.settings)
        except (ValueError, RecursionError) as wrong:
            return self.reply(400, f"{wrong}\n".encode())
        return self.reply(200, json.dumps(review).encode(), "application/json")

    def log_message(self, format, *args):
        sys.stderr.write(f"{self.address_string()} {format % args}\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address, settings, context):
        super().__init__(address, Handler)
        self.settings, self.context = settings, context

    def finish_request(self, request, client_address):
        """The handshake is the thread's, so that one slow client does not stop the others."""
        if not self.context:
            return super().finish_request(request, client_address)
        request.settimeout(10)
        with self.context.wrap_socket(request, server_side=True) as secure:
            super().finish_request(secure, client_address)

    def handle_error(self, request, client_address):
        sys.stderr.write(f"{client_address[0]} {sys.exc_info()[1]}\n")


def reload_certificate(context, o, stop):
    """A certificate that is renewed on disk is used without a restart."""
    while not stop.wait(60):
        try:
            context.load_cert_chain(o.certificate, o.key)
        except (OSError, ssl.SSLError) as wrong:
            sys.stderr.write(f"{o.certificate}: {wrong}\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--image", required=True, help="image with capo's files (deploy/kubernetes/Dockerfile)")
    p.add_argument("--logs-claim", default="", help="persistent volume claim for logs, the same in every namespace")
    p.add_argument("--shm", default="8Gi", help="size of /dev/shm of pods that mount none")
    p.add_argument("--port", type=int, default=8443)
    p.add_argument("--certificate", help="PEM; without it plain HTTP, for tests")
    p.add_argument("--key")
    o = p.parse_args()
    context = None
    if o.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(o.certificate, o.key)
        threading.Thread(target=reload_certificate, args=(context, o, threading.Event()), daemon=True).start()
    server = Server(("", o.port), Settings(o.image, o.logs_claim, o.shm), context)
    print(f"listening on port {server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
