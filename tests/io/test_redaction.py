"""What of the options of sources and sinks nobody gets to see."""

from sparkbeam.plan.sparkio import Redaction


def test_values_of_telling_options_are_hidden() -> None:
    hide = Redaction([("password", "abc-123"), ("path", "/data/in"), ("sasl.jaas.config", "x y z")])
    assert hide("abc-123 for x y z in /data/in") == "*** for *** in /data/in"
    assert hide.finds("it was abc-123")
    assert not hide.finds("/data/in")


def test_passwords_within_connection_strings_are_hidden_alone_and_as_a_whole() -> None:
    hide = Redaction([("url", "jdbc:db://host/?user=someone&password=hunter22")])
    assert hide("no login with hunter22") == "no login with ***"
    assert hide("cannot open jdbc:db://host/?user=someone&password=hunter22.") == "cannot open ***."
    assert Redaction([("path", "ftp://me:hunter22@host/x")])("hunter22") == "***"


def test_words_that_tell_nothing_are_left() -> None:
    hide = Redaction([("useToken", "true"), ("keys", "10"), ("startingKey", "earliest")])
    assert hide("true, 10, earliest") == "true, 10, earliest"
