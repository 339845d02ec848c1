package term

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for _, c := range []struct {
		in   string
		want time.Duration // -1: refused
	}{
		{"90s", 90 * time.Second},
		{"1h30m", 90 * time.Minute},
		{"2d", 48 * time.Hour},
		{"1d12h", 36 * time.Hour},
		{"0s", 0},
		{"-5s", -5 * time.Second},
		{"60", -1},
		{"0", -1},
		{"", -1},
		{"d", -1},
		{"1d-3h", -1},
		{"1d5", -1},
		{"NaN", -1},
		{"1e99s", -1},
		{"99999999d", -1},
		{"9999999999999h", -1},
		{"10 m", -1},
	} {
		got, err := ParseDuration(c.in)
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("parseDuration(%q) = %v, %v, want %v", c.in, got, err, c.want)
		}
	}
}

func TestRoughAndExact(t *testing.T) {
	for _, c := range []struct {
		d            time.Duration
		rough, exact string
	}{
		{0, "0s", "0s"},
		{45 * time.Second, "45s", "45s"},
		{59*time.Second + 700*time.Millisecond, "1m", "59.7s"},
		{125 * time.Second, "2m05s", "2m5s"},
		{30 * time.Minute, "30m", "30m"},
		{59*time.Minute + 40*time.Second, "1h00m", "59m40s"},
		{65 * time.Minute, "1h05m", "1h5m"},
		{2 * time.Hour, "2h00m", "2h"},
		{51 * time.Hour, "2d3h", "51h"},
		{720 * time.Hour, "30d0h", "30d"},
	} {
		if got := Rough(c.d); got != c.rough {
			t.Errorf("rough(%v) = %s, want %s", c.d, got, c.rough)
		}
		if got := Exact(c.d); got != c.exact {
			t.Errorf("exact(%v) = %s, want %s", c.d, got, c.exact)
		}
		if back, err := ParseDuration(Exact(c.d)); err != nil || back != c.d {
			t.Errorf("%s is read back as %v: %v", Exact(c.d), back, err)
		}
	}
}
