package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// What a client sends is read strictly: a field that nobody knows, or that is there
// twice, would otherwise be a wish that is silently ignored.

func decodeBody(w http.ResponseWriter, r *http.Request, in any) error {
	if r.URL.RawQuery != "" {
		return errors.New("everything belongs in the body, nothing in the query")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return err
	}
	return decode(body, in)
}

// decode reads one JSON object into a struct.
func decode(body []byte, in any) error {
	if !utf8.Valid(body) {
		return errors.New("the body is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := onlyOnce(dec, 0); err != nil {
		return wording(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body is more than one JSON object")
	}
	dec = json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return wording(dec.Decode(in))
	}
	return errors.New("the body must be a JSON object")
}

const maxDepth = 32

// onlyOnce reads a value and refuses an object that has a name twice. Names differ by
// more than case: the decoder below does not mind it.
func onlyOnce(dec *json.Decoder, depth int) error {
	if depth > maxDepth {
		return errors.New("the JSON is too deep")
	}
	t, err := dec.Token()
	if err != nil {
		return err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			name, err := dec.Token()
			if err != nil {
				return err
			}
			fold := strings.ToLower(name.(string))
			if seen[fold] {
				return fmt.Errorf("the name %.60q is there twice", name)
			}
			seen[fold] = true
		}
		if err := onlyOnce(dec, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// wording leaves out what is about Go.
func wording(err error) error {
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind):
		return fmt.Errorf("%s: must not be a %s", kind.Field, kind.Value)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body is not a whole JSON object")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// decodeQuery reads a query into a struct by the names that its fields have in JSON.
func decodeQuery(raw string, in any) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return errors.New("the query is malformed")
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(in).Elem()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
	}
	object := map[string]any{}
	for name, values := range query {
		kind, known := fields[name]
		switch {
		case !known || name == "":
			return fmt.Errorf("there is no parameter %.60q", name)
		case kind.Kind() == reflect.Slice:
			object[name] = values
		case len(values) > 1:
			return fmt.Errorf("the parameter %s is there twice", name)
		case slices.Contains([]reflect.Kind{reflect.Int, reflect.Int64, reflect.Bool}, kind.Kind()) && kind != reflect.TypeFor[Duration]():
			object[name] = json.RawMessage(values[0])
			if !json.Valid([]byte(values[0])) {
				return fmt.Errorf("%s: must be a number or true or false", name)
			}
		default:
			object[name] = values[0]
		}
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return decode(body, in)
}

// Duration is a length of time in JSON: a number with a unit, "90s" or "15m".
type Duration time.Duration

func (d *Duration) UnmarshalJSON(b []byte) error {
	text, err := strconv.Unquote(string(b))
	if err != nil {
		return errors.New("a length of time is a text with a unit, like \"90s\" or \"15m\"")
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%.40q: a length of time has a unit, like 90s or 15m", text)
	}
	*d = Duration(v)
	return nil
}
