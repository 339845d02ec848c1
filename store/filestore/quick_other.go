//go:build !linux

package filestore

// quick is for Linux.
type quick struct{}

func (quick) read(*Store, string, string) (data []byte, ok bool)   { return nil, false }
func (quick) fill(*Store, string, []byte, bool) (ok bool)          { return false }
func (quick) place(*Store, string, string, string, bool) (ok bool) { return false }
func (quick) take(*Store, string, string, string) (ok bool)        { return false }
func (quick) startSync(*Store, string)                             {}
func (quick) sync(*Store, string, string) (done bool, err error)   { return false, nil }
func (quick) made(string)                                          {}
func (quick) close(*Store)                                         {}

// A stamp is for Linux: the zero stamp shows nothing.
type stamp struct{}

func (s *Store) stamp() stamp { return stamp{} }

type folders struct{}

func (s *Store) leaveFolders() {}
