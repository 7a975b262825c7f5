// What Prometheus makes of rules and expressions, told as JSON. Its own promtool is of the modules
// of every service discovery that there is, and not all of them are to be had.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// How often rules are evaluated.
const interval = time.Minute

// What is asked.
type question struct {
	// A file of rules.
	Rules string `json:"rules"`
	// Expressions to be read, beside those of the rules.
	Expressions []string `json:"expressions"`
	// What the rules are evaluated on.
	Cases []sample `json:"cases"`
}

// Samples, and when it is looked who fires.
type sample struct {
	// As of promqltest: `load 1m`, and a line for each series.
	Load    string `json:"load"`
	Seconds int    `json:"seconds"`
}

type answer struct {
	// The name of each rule.
	Alerts []string `json:"alerts"`
	// What each rule asks for, and then each of the expressions.
	Asked []asked `json:"asked"`
	// Who fires in each case.
	Firing [][]firing `json:"firing"`
}

type firing struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// What one expression asks for.
type asked struct {
	Expression string     `json:"expression"`
	Selectors  []selector `json:"selectors"`
	Groups     []group    `json:"groups"`
}

type selector struct {
	Metric   string    `json:"metric"`
	Matchers []matcher `json:"matchers"`
}

type matcher struct {
	Label string `json:"label"`
	// `=`, `!=`, `=~` or `!~`.
	Type  string `json:"type"`
	Value string `json:"value"`
}

// Labels that are told apart by, and of which metrics.
type group struct {
	Labels  []string `json:"labels"`
	Metrics []string `json:"metrics"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asks question
	if err := json.NewDecoder(os.Stdin).Decode(&asks); err != nil {
		return err
	}
	var says answer
	read := parser.NewParser(parser.Options{})
	all, err := load(asks.Rules, nil)
	if err != nil {
		return err
	}
	expressions := []string{}
	for _, rule := range all {
		says.Alerts = append(says.Alerts, rule.Name())
		expressions = append(expressions, rule.Query().String())
	}
	for _, text := range append(expressions, asks.Expressions...) {
		expression, err := read.ParseExpr(text)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		says.Asked = append(says.Asked, look(expression))
	}
	for _, one := range asks.Cases {
		fires, err := evaluate(asks.Rules, one)
		if err != nil {
			return err
		}
		says.Firing = append(says.Firing, fires)
	}
	return json.NewEncoder(os.Stdout).Encode(says)
}

// The alerting rules of a file, evaluated on that, if it is.
func load(file string, on *promqltest.LazyLoader) ([]*rules.AlertingRule, error) {
	options := &rules.ManagerOptions{
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
		Parser:     parser.NewParser(parser.Options{}),
	}
	if on != nil {
		options.QueryFunc = rules.EngineQueryFunc(on.QueryEngine(), on.Storage())
	}
	groups, errs := rules.NewManager(options).LoadGroups(interval, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	var all []*rules.AlertingRule
	for _, group := range groups {
		for _, rule := range group.Rules() {
			alert, ok := rule.(*rules.AlertingRule)
			if !ok {
				return nil, fmt.Errorf("%s is no alert", rule.Name())
			}
			all = append(all, alert)
		}
	}
	return all, nil
}

func evaluate(file string, one sample) ([]firing, error) {
	suite, err := promqltest.NewLazyLoader(one.Load, promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
	if err != nil {
		return nil, err
	}
	defer suite.Close()
	all, err := load(file, suite)
	if err != nil {
		return nil, err
	}
	query := rules.EngineQueryFunc(suite.QueryEngine(), suite.Storage())
	start := time.Unix(0, 0).UTC()
	end := start.Add(time.Duration(one.Seconds) * time.Second)
	for now := start; !now.After(end); now = now.Add(interval) {
		var failed error
		suite.WithSamplesTill(now, func(err error) { failed = err })
		if failed != nil {
			return nil, failed
		}
		for _, alert := range all {
			if _, err := alert.Eval(suite.Context(), 0, now, query, nil, 0); err != nil {
				return nil, fmt.Errorf("%s: %w", alert.Name(), err)
			}
		}
	}
	fires := []firing{}
	for _, alert := range all {
		for _, active := range alert.ActiveAlerts() {
			if active.State == rules.StateFiring {
				fires = append(fires, firing{active.Labels.Map(), active.Annotations.Map()})
			}
		}
	}
	return fires, nil
}

func look(expression parser.Expr) asked {
	says := asked{Expression: expression.String(), Selectors: selectors(expression), Groups: []group{}}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok && len(aggregate.Grouping) > 0 {
			metrics := []string{}
			for _, selector := range selectors(aggregate.Expr) {
				metrics = append(metrics, selector.Metric)
			}
			says.Groups = append(says.Groups, group{aggregate.Grouping, metrics})
		}
		return nil
	})
	return says
}

func selectors(expression parser.Expr) []selector {
	all := []selector{}
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		if vector, ok := node.(*parser.VectorSelector); ok {
			one := selector{Metric: vector.Name, Matchers: []matcher{}}
			for _, m := range vector.LabelMatchers {
				if m.Name != labels.MetricName {
					one.Matchers = append(one.Matchers, matcher{m.Name, m.Type.String(), m.Value})
				}
			}
			all = append(all, one)
		}
		return nil
	})
	return all
}
