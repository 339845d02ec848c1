package lease_test

// groupOfTest: there are no process groups to look at, so all is doubt.
func groupOfTest() int { return 0 }
