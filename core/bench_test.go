package core

import (
	"strings"
	"testing"
)

// canonical is the envelope that the speed targets are measured with.
const canonical = `{"v":1,"jobId":"job_20260712153000_ab12cd34ef56","jobType":"order.paid.notify","payload":{"orderId":10001,"amount":"19.90","currency":"EUR"},"meta":{"tenantId":"t1","idempotencyKey":"order:10001:paid"},"attempt":1,"maxAttempts":5,"createdAt":1720764000}`

func BenchmarkDecode(b *testing.B) { benchmarkDecode(b, canonical) }

// BenchmarkDecodeQueued decodes what PHP's list producer makes of it.
func BenchmarkDecodeQueued(b *testing.B) {
	benchmarkDecode(b, strings.TrimSuffix(canonical, "}")+`,"__id":"0123456789abcdef0123456789abcdef","__retry_num":0,"__timestamp":1720764001}`)
}

func benchmarkDecode(b *testing.B, envelope string) {
	body := []byte(envelope)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	job, err := Decode([]byte(canonical))
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = job.Append(buf[:0])
	}
	if string(buf) != canonical {
		b.Fatalf("got %s", buf)
	}
}

func TestDecodeAllocatesThreeTimesAndAppendNever(t *testing.T) {
	body, buf := []byte(canonical), make([]byte, 0, 1024)
	job, err := Decode(body)
	must(t, err)
	if n := testing.AllocsPerRun(100, func() { job, err = Decode(body) }); n > 3 || err != nil {
		t.Errorf("decode allocates %v times, %v", n, err)
	}
	if n := testing.AllocsPerRun(100, func() { buf = job.Append(buf[:0]) }); n > 0 {
		t.Errorf("append allocates %v times", n)
	}
}
