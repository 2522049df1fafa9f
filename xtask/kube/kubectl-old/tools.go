//go:build tools

// Package tools keeps the program that the tests build in go.mod and go.sum.
package tools

import _ "k8s.io/kubernetes/cmd/kubectl"
