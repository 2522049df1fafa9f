//go:build tools

// Package tools keeps docker compose in go.mod and go.sum.
package tools

import _ "github.com/docker/compose/v5/cmd"
