package host_test

import (
	"os/exec"
	"testing"

	"github.com/tasklock/tasklock/internal/host"
)

func TestOnEnd(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := host.Find(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	stop, ok := p.OnEnd(func() { close(ended) })
	if !ok {
		t.Skip("this kernel has no notice of the end of a process")
	}
	defer stop()
	select {
	case <-ended:
		t.Fatal("it lives, and counts as ended")
	default:
	}
	other := p
	other.Start = "1"
	if _, ok := other.OnEnd(func() {}); ok {
		t.Error("another process of that number counts as this one")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended // as a zombie: nobody has waited for it
	if life := p.Life(); life != host.Dead {
		t.Errorf("ended, and %v", life)
	}
	_ = child.Wait()
	if _, ok := p.OnEnd(func() {}); ok {
		t.Error("one that has ended is watched")
	}
}

func TestOnEndStops(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	p, err := host.Find(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	called := false
	stop, ok := p.OnEnd(func() { called = true })
	if !ok {
		t.Skip("this kernel has no notice of the end of a process")
	}
	stop()
	if !called {
		t.Error("stop returned before the watch had ended")
	}
}
