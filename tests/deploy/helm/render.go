// SPDX-License-Identifier: Apache-2.0

// render CHART VALUES: print the objects of a chart like "helm template", using
// Go's templates and sprig. Of helm's own functions it knows toYaml, fail and
// .Files.Get; any other is an error.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type values = map[string]interface{}

// over merges the keys of one mapping over those of another, like --values:
// null removes a key.
func over(below, above values) values {
	for key, value := range above {
		inner, isMap := value.(values)
		lower, wasMap := below[key].(values)
		if isMap && wasMap {
			value = over(lower, inner)
		}
		below[key] = value
		if value == nil {
			delete(below, key)
		}
	}
	return below
}

func read(file string) values {
	all := values{}
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, &all)
	}
	die(err)
	return all
}

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type files struct{ chart string }

func (f files) Get(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(f.chart, name))
	return string(text), err
}

func functions() template.FuncMap {
	all := sprig.TxtFuncMap()
	all["toYaml"] = func(of interface{}) (string, error) {
		text, err := yaml.Marshal(of)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	all["fail"] = func(why string) (string, error) {
		return "", errors.New(why)
	}
	return all
}

func main() {
	chart := os.Args[1]
	about := read(filepath.Join(chart, "Chart.yaml"))
	scope := values{
		"Values":  over(read(filepath.Join(chart, "values.yaml")), read(os.Args[2])),
		"Chart":   values{"Name": about["name"], "AppVersion": about["appVersion"]},
		"Release": values{"Name": "mpib", "Namespace": "mpib"},
		"Files":   files{chart},
	}
	found, err := filepath.Glob(filepath.Join(chart, "templates", "*.yaml"))
	die(err)
	for _, file := range found {
		text, err := os.ReadFile(file)
		die(err)
		parsed, err := template.New(file).Funcs(functions()).Parse(string(text))
		die(err)
		var out bytes.Buffer
		die(parsed.Execute(&out, scope))
		if strings.TrimSpace(out.String()) != "" {
			fmt.Printf("---\n%s\n", out.String())
		}
	}
}
