//go:build tools

// Package tools keeps metrics-server in go.mod and go.sum.
package tools

import _ "sigs.k8s.io/metrics-server/cmd/metrics-server"
