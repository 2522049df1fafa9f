//go:build tools

// Package tools keeps KWOK in go.mod and go.sum.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
