// Command keys writes the throw-away certificates of a control plane on loopback into one folder:
// an authority (ca.crt), the server's pair (apiserver.crt, .key), the key that signs service account
// tokens (sa.key), and a client pair for every argument NAME=USER or NAME=USER/GROUP.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

var (
	folder    string
	authority *x509.Certificate
	signer    *ecdsa.PrivateKey
)

func main() {
	folder = os.Args[1]
	signer = newKey()
	authority = &x509.Certificate{
		Subject: pkix.Name{CommonName: "test-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	write("ca.crt", "CERTIFICATE", sign(authority, signer))
	pair("apiserver", &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
	})
	for _, client := range os.Args[2:] {
		name, subject, _ := strings.Cut(client, "=")
		user, group, grouped := strings.Cut(subject, "/")
		template := &x509.Certificate{
			Subject:     pkix.Name{CommonName: user},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		if grouped {
			template.Subject.Organization = []string{group}
		}
		pair(name, template)
	}
	tokens, err := rsa.GenerateKey(rand.Reader, 2048)
	check(err)
	write("sa.key", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(tokens))
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	return key
}

func pair(name string, template *x509.Certificate) {
	key := newKey()
	write(name+".crt", "CERTIFICATE", sign(template, key))
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	write(name+".key", "PRIVATE KEY", encoded)
}

func sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	check(err)
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.AddDate(10, 0, 0)
	if !template.IsCA {
		template.KeyUsage = x509.KeyUsageDigitalSignature
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), signer)
	check(err)
	return encoded
}

func write(name, kind string, content []byte) {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
	check(os.WriteFile(filepath.Join(folder, name), text, 0o600))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
