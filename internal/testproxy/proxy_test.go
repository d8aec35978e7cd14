package testproxy

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// echo starts a server that sends every line back.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					conn.Write(append(lines.Bytes(), '\n'))
				}
			}()
		}
	}()
	return listener.Addr().String()
}

type client struct {
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{conn, bufio.NewReader(conn)}
}

// ask sends a line and waits up to limit for the answer.
func (c *client) ask(line string, limit time.Duration) (string, error) {
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	c.SetReadDeadline(time.Now().Add(limit))
	return c.lines.ReadString('\n')
}

func TestProxyForwardsAndCounts(t *testing.T) {
	t.Parallel()
	p := Start(t, echo(t))
	c := dial(t, p)
	if got, err := c.ask("hello", 5*time.Second); got != "hello\n" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	if p.Connections() != 1 || p.Bytes(ToServer) != 6 || p.Bytes(ToClient) != 6 {
		t.Fatalf("counted %d connections, %d and %d bytes", p.Connections(), p.Bytes(ToServer), p.Bytes(ToClient))
	}
}

func TestProxyCutsConnections(t *testing.T) {
	t.Parallel()
	p := Start(t, echo(t))
	c := dial(t, p)
	if _, err := c.ask("hello", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if got, err := c.ask("again", 5*time.Second); err == nil {
		t.Fatalf("got %q on a cut connection", got)
	}
	p.Refuse(true)
	if got, err := dial(t, p).ask("refused", 5*time.Second); err == nil {
		t.Fatalf("got %q while connections are refused", got)
	}
	p.Refuse(false)
	if got, err := dial(t, p).ask("back", 5*time.Second); got != "back\n" || err != nil {
		t.Fatalf("got %q, %v after the refusal", got, err)
	}
}

func TestProxyStallsOneDirectionAndLetsItGoOn(t *testing.T) {
	t.Parallel()
	p := Start(t, echo(t))
	c := dial(t, p)
	p.Stall(ToClient)
	if got, err := c.ask("held", 50*time.Millisecond); err == nil {
		t.Fatalf("got %q through a stalled proxy", got)
	}
	p.Resume(ToClient)
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if got, err := c.lines.ReadString('\n'); got != "held\n" || err != nil {
		t.Fatalf("got %q, %v after the stall", got, err)
	}
}

func TestProxyFilterDropsAndCuts(t *testing.T) {
	t.Parallel()
	p := Start(t, echo(t))
	c := dial(t, p)
	p.Filter(func(c Chunk) Action {
		switch {
		case c.Direction == ToClient && string(c.Bytes) == "drop\n":
			return Drop
		case c.Direction == ToServer && string(c.Bytes) == "cut\n":
			return Cut
		}
		return Pass
	})
	if got, err := c.ask("drop", 50*time.Millisecond); err == nil {
		t.Fatalf("got %q, which the filter drops", got)
	}
	if got, err := c.ask("keep", 5*time.Second); got != "keep\n" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	if got, err := c.ask("cut", 5*time.Second); err == nil {
		t.Fatalf("got %q on a connection that the filter cut", got)
	}
}

func TestProxyLosesTheReplyToOneRequest(t *testing.T) {
	t.Parallel()
	p := Start(t, echo(t))
	c := dial(t, p)
	lost := 0
	p.LoseReplies("secret", 1, func() { lost++ })
	if got, err := c.ask("hello", 5*time.Second); got != "hello\n" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	if got, err := c.ask("secret", 5*time.Second); err == nil {
		t.Fatalf("got %q, which should be lost", got)
	}
	if got, err := dial(t, p).ask("secret", 5*time.Second); got != "secret\n" || err != nil || lost != 1 {
		t.Fatalf("got %q, %v the second time, lost %d", got, err, lost)
	}
}
