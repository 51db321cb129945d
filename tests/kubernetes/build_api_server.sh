#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kube-apiserver from Debian's source package of Kubernetes, for api_server.py: 20 minutes of two cores. usage: build_api_server.sh FOLDER
# Needs the packages golang-go, dpkg-dev and etcd-server, and deb-src lines in APT's sources.
set -eu
mkdir -p "$1/go/src/k8s.io"
cd "$1"
export GOPATH="$PWD/go" GO111MODULE=off GOCACHE="$PWD/cache"
apt-get source --download-only kubernetes
apt-get download golang-github-modern-go-reflect2-dev
tar xzf kubernetes_*.orig.tar.gz -C go/src/k8s.io
mv go/src/k8s.io/kubernetes-* go/src/k8s.io/kubernetes
dpkg -x golang-github-modern-go-reflect2-dev_*.deb newer
cd go/src/k8s.io/kubernetes
# the copy inside ends with Go 1.18 and later
rm vendor/github.com/modern-go/reflect2/*.go vendor/github.com/modern-go/reflect2/*.s
cp "$OLDPWD"/newer/usr/share/gocode/src/github.com/modern-go/reflect2/*.go "$OLDPWD"/newer/usr/share/gocode/src/github.com/modern-go/reflect2/*.s \
        vendor/github.com/modern-go/reflect2
# one generated file is not in the package
go build -o "$OLDPWD/openapi-gen" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
packages=$(grep -rl --include='*.go' -E '^// *\+k8s:openapi-gen=' pkg staging/src | grep -v '_test.go' | xargs -n1 dirname | sort -u |
        sed -e 's#^staging/src/#k8s.io/kubernetes/vendor/#' -e 's#^pkg#k8s.io/kubernetes/pkg#' | paste -sd,)
"$OLDPWD/openapi-gen" -O zz_generated.openapi --go-header-file hack/boilerplate/boilerplate.generatego.txt --output-base "$GOPATH/src" \
        -p k8s.io/kubernetes/pkg/generated/openapi -i "$packages" -r "$OLDPWD/violations"
go build -ldflags "-s -w -X k8s.io/kubernetes/vendor/k8s.io/component-base/version.gitVersion=v1.20.2" -o "$OLDPWD/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
echo "KUBE_APISERVER=$OLDPWD/kube-apiserver"
