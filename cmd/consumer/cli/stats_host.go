package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
)

// hostCounters reads what a running host has done from the metrics of its admin
// address. A nil one knows nothing.
type hostCounters struct {
	url    string
	client *http.Client
}

// newHostCounters is nil when the config does not say where a host answers.
func newHostCounters(admin *config.Admin) *hostCounters {
	if admin == nil {
		return nil
	}
	if _, port, err := net.SplitHostPort(admin.Listen); err != nil || port == "0" {
		return nil
	}
	return &hostCounters{
		url:    fmt.Sprintf("http://%s/metrics", adminAddress(admin.Listen)),
		client: &http.Client{Transport: &http.Transport{}, Timeout: statsTimeout}, // no proxy stands before it
	}
}

func (h *hostCounters) close() {
	if h != nil {
		h.client.CloseIdleConnections()
	}
}

// settled is how many jobs have ended for good, by process, since the host
// started; nil when no host answers.
func (h *hostCounters) settled(ctx context.Context) map[string]float64 {
	if h == nil {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return nil
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil
	}
	settled := map[string]float64{}
	for _, metric := range families["consumer_jobs_total"].GetMetric() {
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		n := 0.0
		switch core.Outcome(labels["outcome"]) {
		case core.OutcomeSuccess, core.OutcomeDiscarded, core.OutcomeDead:
			n = metric.GetCounter().GetValue()
		}
		settled[labels["process"]] += n
	}
	return settled
}
