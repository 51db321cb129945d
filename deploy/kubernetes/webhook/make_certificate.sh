#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A certificate for the webhook where there is no cert-manager: writes tls.crt, tls.key and ca.txt (caBundle) into a folder.
# usage: make_certificate.sh FOLDER [NAME]    then:
#   kubectl -n capo create secret tls capo-webhook-tls --cert FOLDER/tls.crt --key FOLDER/tls.key
#   kubectl patch mutatingwebhookconfiguration capo-webhook --type=json \
#     -p "[{\"op\":\"add\",\"path\":\"/webhooks/0/clientConfig/caBundle\",\"value\":\"$(cat FOLDER/ca.txt)\"}]"
set -eu
folder=$1 name=${2:-capo-webhook.capo.svc}
mkdir -p "$folder"
openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=$name" -addext "subjectAltName=DNS:$name" \
        -keyout "$folder/tls.key" -out "$folder/tls.crt" 2>/dev/null
base64 -w0 <"$folder/tls.crt" >"$folder/ca.txt"
