//go:build !linux

package host

// OnEnd reports false: callers look now and then whether the process has ended.
func (p Process) OnEnd(func()) (stop func(), ok bool) { return nil, false }
