package task

import (
	"context"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// A Node is a task in a graph of dependencies.
type Node struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	Status    Status   `json:"status"`
	DependsOn []string `json:"dependsOn"`
}

// Graph returns a task and everything that it depends on, directly or not: the
// task first, each once, without archived and deleted tasks.
func Graph(ctx context.Context, st *store.Store, ref string) (nodes []Node, err error) {
	need := driver.Query{Keys: needFind([]string{ref}), Ranges: []driver.Range{{Prefix: taskKind}}}
	err = st.View(ctx, need, func(tx *store.Tx) error {
		nodes = nil
		found, err := findAll(tx, []string{ref})
		if err != nil {
			return err
		}
		all, err := store.All[Task](tx, taskKind)
		if err != nil {
			return err
		}
		byID := make(map[string]Task, len(all))
		for _, e := range all {
			byID[e.Value.ID] = e.Value
		}
		seen := map[string]bool{found[0].ID: true}
		for todo := []string{found[0].ID}; len(todo) > 0; todo = todo[1:] {
			t, there := byID[todo[0]]
			if !there {
				continue
			}
			nodes = append(nodes, Node{ID: t.ID, Title: t.Title, Status: t.Status, DependsOn: append([]string{}, t.DependsOn...)})
			for _, id := range t.DependsOn {
				if !seen[id] {
					seen[id], todo = true, append(todo, id)
				}
			}
		}
		return nil
	})
	return nodes, err
}
