package config

import "github.com/goccy/go-yaml/ast"

// This file reads single nodes of the YAML library's syntax tree.

// anchorFinder collects what the anchors of a file stand for.
type anchorFinder map[string]ast.Node

func (f anchorFinder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok {
		f[a.Name.GetToken().Value] = a.Value
	}
	return f
}

// plain strips anchors and tags and follows an alias (once: YAML aliases can't
// form chains of aliases).
func (r *reader) plain(n ast.Node) ast.Node {
	switch v := n.(type) {
	case *ast.AnchorNode:
		return r.plain(v.Value)
	case *ast.TagNode:
		return r.plain(v.Value)
	case *ast.AliasNode:
		if target := r.anchors[v.Value.GetToken().Value]; target != nil {
			return target
		}
		line, column := position(n)
		r.fault(line, column, "the alias *%s has no anchor", v.Value.GetToken().Value)
	}
	return n
}

func position(n ast.Node) (line, column int) {
	// A mapping's own token is the colon of its first pair.
	switch v := n.(type) {
	case *ast.MappingNode:
		if len(v.Values) > 0 && !v.IsFlowStyle {
			return position(v.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return position(v.Key)
	}
	p := n.GetToken().Position
	return p.Line, p.Column
}

// maxMerges bounds how many merge keys may lead from one mapping to the next,
// since an anchor can hold an alias of itself.
const maxMerges = 10

// pairs lists a mapping's pairs, those of merge keys (<<) last and only where the
// mapping has none of its own.
func (r *reader) pairs(n ast.Node, merges int) ([]*ast.MappingValueNode, bool) {
	if merges < 0 {
		return nil, false
	}
	var all []*ast.MappingValueNode
	switch v := n.(type) {
	case *ast.NullNode:
		return nil, true
	case *ast.MappingNode:
		all = v.Values
	case *ast.MappingValueNode:
		all = []*ast.MappingValueNode{v}
	default:
		return nil, false
	}
	var own, merged []*ast.MappingValueNode
	has := map[string]bool{}
	for _, pair := range all {
		if _, ok := pair.Key.(*ast.MergeKeyNode); !ok {
			own = append(own, pair)
			has[pair.Key.GetToken().Value] = true
			continue
		}
		sources := []ast.Node{r.plain(pair.Value)}
		if list, ok := sources[0].(*ast.SequenceNode); ok { // <<: [*a, *b], the first wins
			sources = list.Values
		}
		for _, source := range sources {
			more, ok := r.pairs(r.plain(source), merges-1)
			if !ok {
				return nil, false
			}
			merged = append(merged, more...)
		}
	}
	for _, pair := range merged {
		if key := pair.Key.GetToken().Value; !has[key] {
			own = append(own, pair)
			has[key] = true
		}
	}
	return own, true
}

func scalarText(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.StringNode:
		return v.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}
